package pgstore

import (
	"context"

	"github.com/skald-go/skald/store"
)

// Maintain empties what is older than it is to be kept, under the lease on the retention if there is an
// owner.
func (c *core) Maintain(ctx context.Context, m store.Maintain) (store.Maintained, error) {
	return c.steward.Maintain(ctx, m)
}
