// This file empties what is older than it is to be kept, under a lease.

package admin

import (
	"context"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// A Steward is that of one file.
type Steward struct{ run *sqlexec.DB }

// NewSteward is the steward of the file of run.
func NewSteward(run *sqlexec.DB) *Steward { return &Steward{run} }

// Maintain empties what is older than it is to be kept, under the lease on the retention if there is an
// owner.
func (s *Steward) Maintain(ctx context.Context, m store.Maintain) (store.Maintained, error) {
	switch {
	case m.Leave:
		_, err := s.own(ctx, retentionLease, m.Owner, 0)
		return store.Maintained{}, err
	case m.Owner != "":
		mine, err := s.own(ctx, retentionLease, m.Owner, m.Lease)
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
