// This file empties what is older than it is to be kept: leaves of the outbox, marks, steps, sagas. It
// also counts what it would empty.

package admin

import (
	"context"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// A Steward empties what is older than it is to be kept, in one database.
type Steward struct{ pg *sqlexec.DB }

// NewSteward is the steward of pg.
func NewSteward(pg *sqlexec.DB) *Steward { return &Steward{pg} }

// Maintain empties what is older than it is to be kept, under the lease on the retention if there is an
// owner.
func (s *Steward) Maintain(ctx context.Context, m store.Maintain) (store.Maintained, error) {
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
