package pgstore

import (
	"context"
	"time"

	"github.com/skald-go/skald/store"
)

// Backlog reads the views of the contract.
func (c *core) Backlog(ctx context.Context) (store.Backlog, error) {
	var b store.Backlog
	var oldest, retained int64 // milliseconds
	err := c.short(ctx, "read backlog", c.call("Backlog").into(&b.Source, &b.Pending, &oldest, &b.Aside, &retained, &b.Free))
	if err != nil {
		return store.Backlog{}, err
	}
	b.Oldest, b.Retained = time.Duration(oldest)*time.Millisecond, time.Duration(retained)*time.Millisecond
	return b, nil
}
