package sqlitestore

import (
	"context"

	"github.com/skald-go/skald/store"
)

// Audited lists what operators did, in a run or at all.
func (s *Store) Audited(ctx context.Context, run string, after int64, limit int) ([]store.Audit, error) {
	name, args := "AuditedAll", []any{after, limit}
	if run != "" {
		name, args = "Audited", []any{run, after, limit}
	}
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
