package inbox

import (
	"context"

	"github.com/skald-go/skald/store"
)

type fenceKey struct{}

// fenced is ctx with the versions that a transaction gives the entities it has locked.
func fenced(ctx context.Context, locks []store.Lock, versions []int64) context.Context {
	if len(locks) == 0 {
		return ctx
	}
	held := make(map[store.Lock]int64, len(locks))
	for i, l := range locks {
		held[store.Lock{Space: l.Space, Key: l.Key}] = versions[i]
	}
	return context.WithValue(ctx, fenceKey{}, held)
}

// Fence is the fencing token of an entity that Options.Transaction.Entities names: the version that the
// handler's transaction gives it, which only grows. 0: the entity is not locked. Write it with your rows;
// who works on behind the commit then writes only WHERE it is still the same, and so finds out that it was
// overtaken. A transaction that is rolled back leaves its token to the next: show it to others only once it
// is committed.
func Fence(ctx context.Context, space, key string) int64 {
	held, _ := ctx.Value(fenceKey{}).(map[store.Lock]int64)
	return held[store.Lock{Space: space, Key: key}]
}
