package engine

import (
	"context"
	"fmt"
	"sync"

	"github.com/skald-go/skald/store"
)

// A batch writes the effects of many sagas in one commit: those that came while the one before was written.
// It waits for nobody.
type batch struct {
	db interface {
		Apply(ctx context.Context, es ...store.Effect) ([]bool, error)
		Outage(err error) bool
	}
	straight bool // each alone, in the caller's goroutine

	mu    sync.Mutex
	waits []*waiting
	more  chan struct{}
}

// waiting is an effect, and what becomes of it.
type waiting struct {
	effect store.Effect
	stands bool
	err    error
	done   chan struct{}
}

const (
	batchMost  = 500     // effects of one commit
	batchBytes = 4 << 20 // of states and messages
)

// apply returns whether the effect stands.
func (b *batch) apply(ctx context.Context, e store.Effect) (bool, error) {
	if b.straight {
		return b.one(ctx, e)
	}
	w := &waiting{effect: e, done: make(chan struct{})}
	b.mu.Lock()
	b.waits = append(b.waits, w)
	b.mu.Unlock()
	select {
	case b.more <- struct{}{}:
	default:
	}
	select {
	case <-w.done:
		return w.stands, w.err
	case <-ctx.Done():
		return false, ctx.Err() // it may stand all the same: its version tells
	}
}

func (b *batch) one(ctx context.Context, e store.Effect) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	stand, err := b.db.Apply(ctx, e)
	if err != nil {
		return false, fmt.Errorf("write a transition: %w", err)
	}
	return stand[0], nil
}

// run writes until ctx is done.
func (b *batch) run(ctx context.Context) {
	for {
		select {
		case <-b.more:
		case <-ctx.Done():
			return
		}
		for {
			ws := b.take()
			if len(ws) == 0 {
				break
			}
			b.flush(ctx, ws)
		}
	}
}

// take is what waits, up to the bounds of one commit.
func (b *batch) take() (out []*waiting) {
	b.mu.Lock()
	defer b.mu.Unlock()
	bytes := 0
	for _, w := range b.waits {
		if bytes += size(&w.effect); len(out) == batchMost || len(out) > 0 && bytes > batchBytes {
			break
		}
		out = append(out, w)
	}
	if b.waits = b.waits[len(out):]; len(b.waits) == 0 {
		b.waits = nil
	}
	return out
}

func size(e *store.Effect) (n int) {
	if e.Saga != nil {
		n = len(e.Saga.State)
	}
	for i := range e.Rows {
		n += len(e.Rows[i].Data)
	}
	return n
}

// flush writes ws in one commit. Where that fails, and the database is there, one of them is to blame: each
// is written alone.
func (b *batch) flush(ctx context.Context, ws []*waiting) {
	es := make([]store.Effect, len(ws))
	for i, w := range ws {
		es[i] = w.effect
	}
	within, cancel := context.WithTimeout(ctx, storeTimeout)
	stand, err := b.db.Apply(within, es...)
	cancel()
	alone := err != nil && len(ws) > 1 && !b.db.Outage(err)
	for i, w := range ws {
		switch {
		case alone:
			w.stands, w.err = b.one(ctx, w.effect)
		case err != nil:
			w.err = fmt.Errorf("write a transition: %w", err)
		default:
			w.stands = stand[i]
		}
		close(w.done)
	}
}
