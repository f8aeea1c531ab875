package schema

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/skald-go/skald"
)

// flights lets callers with the same key share one call. The call continues when its callers give up, so that
// the next caller gets its result. It must not depend on the callers, because their transactions may hold
// resources that the call needs.
type flights[K comparable, V any] struct {
	mu  sync.Mutex
	all map[K]*flight[V]
}

type flight[V any] struct {
	begun time.Time
	done  chan struct{}
	v     V
	err   error
}

// do returns the result of the call for key. It starts the call if none is in progress. It waits at most
// for the duration wait since the beginning of the call. The argument timeout is the timeout of the call
// itself.
func (f *flights[K, V]) do(ctx context.Context, timeout, wait time.Duration, key K,
	call func(context.Context) (V, error)) (v V, err error) {
	f.mu.Lock()
	one := f.all[key]
	if one == nil {
		one = &flight[V]{begun: time.Now(), done: make(chan struct{})}
		if f.all == nil {
			f.all = map[K]*flight[V]{}
		}
		f.all[key] = one
		go f.fly(context.WithoutCancel(ctx), timeout, key, one, call)
	}
	f.mu.Unlock()
	ctx, cancel := context.WithDeadlineCause(ctx, one.begun.Add(wait), errSilent)
	defer cancel()
	select {
	case <-one.done:
		return one.v, one.err
	case <-ctx.Done():
		return v, skald.Outage(fmt.Errorf("wait for a schema: %w", context.Cause(ctx)))
	}
}

func (f *flights[K, V]) fly(ctx context.Context, most time.Duration, key K, one *flight[V],
	call func(context.Context) (V, error)) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	one.err = errEnded
	defer func() {
		if p := recover(); p != nil { // parsers may panic on untrusted schemas
			one.err = fmt.Errorf("panic while a schema is read: %T", p)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.all, key)
		close(one.done)
	}()
	one.v, one.err = call(ctx)
}

// errEnded is returned if the call has ended its goroutine (runtime.Goexit).
var errEnded = errors.New("the call for a schema ended without an answer")
