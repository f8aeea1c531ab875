package sqlitestore

import (
	"context"
	"fmt"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlrun"
)

func (s *Store) audited(ctx context.Context, name string, args ...any) ([]store.Audit, error) {
	rows, err := s.run.Query(ctx, name, args...)
	if err != nil {
		return nil, sqlrun.Failed("read the audit", err)
	}
	out, err := sqlrun.Collect(rows, func(scan func(...any) error) (a store.Audit, err error) {
		var at string
		err = scan(&a.Number, &at, &a.Author, &a.Reason, &a.Action, &a.Consumer, &a.Source, &a.ID, &a.Run)
		a.At = readTime(at)
		return a, err
	})
	return out, sqlrun.Failed("read the audit", err)
}

// note writes down what an operator does; nil: nothing.
func note(ctx context.Context, x *sqlrun.Session, a *store.Audit) error {
	if a == nil {
		return nil
	}
	if _, err := x.Exec(ctx, "InsertAudit", a.Author, a.Reason, a.Action, a.Consumer, a.Source, a.ID,
		a.Run); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}
