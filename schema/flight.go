package schema

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/skald-go/skald"
)

// flights shares calls in progress: callers of the same key wait for one call. A call continues after its
// callers give up, so that the next caller gets its answer. It must not depend on them: they hold
// transactions that the call may wait for.
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

// do returns the result of the call for key, and starts one if none is in progress. It waits until wait has
// passed since the call began; most is the timeout of the call.
func (f *flights[K, V]) do(ctx context.Context, most, wait time.Duration, key K,
	call func(context.Context) (V, error)) (v V, err error) {
	f.mu.Lock()
	one := f.all[key]
	if one == nil {
		one = &flight[V]{begun: time.Now(), done: make(chan struct{})}
		if f.all == nil {
			f.all = map[K]*flight[V]{}
		}
		f.all[key] = one
		go f.fly(context.WithoutCancel(ctx), most, key, one, call)
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

// errEnded means that runtime.Goexit ended the call.
var errEnded = errors.New("the call for a schema ended without an answer")
