package memstore

import (
	"context"
	"slices"

	"github.com/skald-go/skald/store"
)

// Audited lists what operators did in a run.
func (s *Store) Audited(ctx context.Context, run string, after int64, limit int) (out []store.Audit, err error) {
	err = s.enter(ctx, func() error {
		for _, a := range s.db.audit {
			if run != "" && a.Run == run && a.Number > after && len(out) < limit {
				out = append(out, a)
			}
		}
		return nil
	})
	return out, err
}

// AuditedLast lists what operators did, the last first.
func (s *Store) AuditedLast(ctx context.Context, before int64, limit int) (out []store.Audit, err error) {
	err = s.enter(ctx, func() error {
		for _, a := range slices.Backward(s.db.audit) {
			if (before == 0 || a.Number < before) && len(out) < limit {
				out = append(out, a)
			}
		}
		return nil
	})
	return out, err
}

// note writes down what an operator does.
func (d *database) note(a store.Audit) {
	a.Number, a.At = int64(len(d.audit)+1), d.now()
	d.audit = append(d.audit, a)
}
