package memstore

import (
	"context"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// Maintain deletes expired rows. With an owner, it first takes the retention lease.
func (s *Store) Maintain(ctx context.Context, m store.Maintain) (store.Maintained, error) {
	switch {
	case m.Leave:
		_, err := s.holdLease(ctx, retentionLease, m.Owner, 0)
		return store.Maintained{}, err
	case m.Owner != "":
		mine, err := s.holdLease(ctx, retentionLease, m.Owner, m.Lease)
		if err != nil || !mine {
			return store.Maintained{Other: err == nil}, err
		}
	}
	if m.DryRun {
		return s.forecast(ctx, m.Keep)
	}
	return s.maintain(ctx, m.Keep)
}

const retentionLease = "retention"

// Examine returns no findings.
func (s *Store) Examine(ctx context.Context, _ store.Exam) ([]skald.Finding, error) {
	return nil, s.enter(ctx, func() error { return nil })
}
