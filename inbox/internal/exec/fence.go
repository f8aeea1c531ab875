package exec

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

// Fence is the version that the transaction of ctx gives an entity; 0: the entity is not locked.
func Fence(ctx context.Context, space, key string) int64 {
	held, _ := ctx.Value(fenceKey{}).(map[store.Lock]int64)
	return held[store.Lock{Space: space, Key: key}]
}
