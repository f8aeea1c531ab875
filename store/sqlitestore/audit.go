package sqlitestore

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"github.com/skald-go/skald/store"
)

// Audited lists what operators did in a run.
func (s *Store) Audited(ctx context.Context, run string, after int64, limit int) ([]store.Audit, error) {
	return s.audited(ctx, "Audited", run, after, limit)
}

// AuditedLast lists what operators did, the last first.
func (s *Store) AuditedLast(ctx context.Context, before int64, limit int) ([]store.Audit, error) {
	return s.audited(ctx, "AuditedLast", cmp.Or(before, math.MaxInt64), limit)
}

func (s *Store) audited(ctx context.Context, name string, args ...any) ([]store.Audit, error) {
	rows, err := s.query(ctx, name, args...)
	if err != nil {
		return nil, failed("read the audit", err)
	}
	out, err := collect(rows, func(scan func(...any) error) (a store.Audit, err error) {
		var at string
		err = scan(&a.Number, &at, &a.Who, &a.Why, &a.What, &a.Consumer, &a.Source, &a.ID, &a.Run)
		a.At = readTime(at)
		return a, err
	})
	return out, failedOr("read the audit", err)
}

// note writes down what an operator does; nil: nothing.
func (x *session) note(ctx context.Context, a *store.Audit) error {
	if a == nil {
		return nil
	}
	if _, err := x.exec(ctx, "InsertAudit", a.Who, a.Why, a.What, a.Consumer, a.Source, a.ID, a.Run); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}
