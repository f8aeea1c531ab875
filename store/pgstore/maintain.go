package pgstore

import (
	"context"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/admin"
	"github.com/skald-go/skald/store/pgstore/internal/query"
)

// Maintain deletes expired rows. With an owner, it first takes the retention lease.
func (c *core) Maintain(ctx context.Context, m store.Maintain) (store.Maintained, error) {
	return c.steward.Maintain(c.patience.Long(ctx), m)
}

// Examine checks the server's settings, clock and connections, the rings and the load.
func (c *core) Examine(ctx context.Context, e store.Exam) ([]skald.Finding, error) {
	return admin.NewDoctor(c.pg, c.steward).Examine(c.patience.Long(ctx), e)
}

// Recover repairs the outbox of a database that moved, and sequences that are behind the stored rows.
// Without a note it only reports.
func (c *core) Recover(ctx context.Context, note *store.Audit) (store.Recovered, error) {
	ctx = c.patience.Long(ctx)
	if note == nil {
		return c.recovery.Recover(ctx, nil)
	}
	noted := query.Note(c.pg, note)
	return c.recovery.Recover(ctx, &noted)
}
