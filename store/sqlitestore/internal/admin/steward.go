// The files steward*.go delete expired rows: outbox rows, marks, steps, sagas and smaller tables.

package admin

import (
	"context"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// Steward deletes expired rows of one file.
type Steward struct{ run *sqlexec.DB }

// NewSteward returns the steward of the file of db.
func NewSteward(db *sqlexec.DB) *Steward { return &Steward{db} }

// Maintain deletes expired rows. If m has an owner, it first takes the retention lease, so that only one
// process deletes. If another process has the lease, it returns Other. If m.DryRun is true, it only counts.
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
