package pgstore

import (
	"context"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/doctor"
)

// Maintain empties what is older than it is to be kept, under the lease on the retention if there is an
// owner.
func (c *core) Maintain(ctx context.Context, m store.Maintain) (store.Maintained, error) {
	return c.steward.Maintain(ctx, m)
}

// Examine looks at the server's settings, its clock and connections, the rings and the load.
func (c *core) Examine(ctx context.Context, e store.Exam) ([]skald.Finding, error) {
	return doctor.New(c.pg, c.steward).Examine(ctx, e)
}
