package pgstore

import (
	"context"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/admin"
	"github.com/skald-go/skald/store/pgstore/internal/query"
)

// Maintain deletes expired rows. If m has an owner, Maintain first takes the retention lease, so that only
// one process deletes.
func (c *core) Maintain(ctx context.Context, m store.Maintain) (store.Maintained, error) {
	return c.steward.Maintain(c.patience.Long(ctx), m)
}

// Examine checks the settings, the clock and the connections of the server, the ring of the outbox (its daily
// partitions) and the load.
func (c *core) Examine(ctx context.Context, e store.Exam) ([]skald.Finding, error) {
	return admin.NewDoctor(c.pg, c.steward).Examine(c.patience.Long(ctx), e)
}

// Recover repairs the outbox after a restore or a move of the database, and sequences that are behind the
// stored rows. If audit is nil, Recover only reports the repairs.
func (c *core) Recover(ctx context.Context, audit *store.Audit) (store.Recovered, error) {
	ctx = c.patience.Long(ctx)
	if audit == nil {
		return c.recovery.Recover(ctx, nil)
	}
	noted := query.Note(c.pg, audit)
	return c.recovery.Recover(ctx, &noted)
}
