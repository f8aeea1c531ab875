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
	kept := c.call("KeptFor")
	kept.scan = func(row scanner) error {
		var k store.Kept
		var parked, apart, called int64 // milliseconds
		err := row.Scan(&k.Consumer, &k.Parked, &k.Dead, &k.Bytes, &parked, &k.Conflicts, &k.TooOld, &apart, &k.Calls, &called)
		k.Oldest, k.Apart = time.Duration(parked)*time.Millisecond, time.Duration(apart)*time.Millisecond
		k.Called = time.Duration(called) * time.Millisecond
		b.Kept = append(b.Kept, k)
		return err
	}
	err := c.short(ctx, "read backlog", c.call("Backlog").into(&b.Source, &b.Pending, &oldest, &b.Aside, &retained, &b.Free), kept)
	if err != nil {
		return store.Backlog{}, err
	}
	b.Oldest, b.Retained = time.Duration(oldest)*time.Millisecond, time.Duration(retained)*time.Millisecond
	return b, nil
}
