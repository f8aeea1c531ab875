// This file writes the moves of many sagas in one commit. A move is a saga's new state with its messages.

package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald/store"
)

// commitDB is the part of the database that a writer uses.
type commitDB interface {
	Apply(ctx context.Context, es ...store.Effect) ([]bool, error)
	Outage(err error) bool
}

// writer writes in one commit all moves that arrived during the previous commit. It does not delay a commit
// to collect more.
type writer struct {
	db      commitDB
	timeout time.Duration // limit of one commit
	queue[*waiting]
	more chan struct{} // the queue is no longer empty
}

// newGroupCommit returns a writer. The timeout limits each commit.
func newGroupCommit(db commitDB, timeout time.Duration) *writer {
	return &writer{db: db, timeout: timeout, more: make(chan struct{}, 1)}
}

// waiting is a move whose caller waits for its result.
type waiting struct {
	effect store.Effect
	stored bool
	err    error
	done   chan struct{}
}

// Write waits until Run has written the effect. It returns false if the saga had another version, so that the
// effect is not stored.
func (w *writer) Write(ctx context.Context, e store.Effect) (bool, error) {
	one := &waiting{effect: e, done: make(chan struct{})}
	if w.add(one) {
		w.more <- struct{}{}
	}
	select {
	case <-one.done:
		return one.stored, one.err
	case <-ctx.Done():
		return false, ctx.Err() // e may be stored; the saga's version shows that
	}
}

// Alone is like Write, but uses its own commit and the caller's goroutine.
func (w *writer) Alone(ctx context.Context, e store.Effect) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	stored, err := w.db.Apply(ctx, e)
	if err != nil {
		return false, fmt.Errorf("write a transition: %w", err)
	}
	return stored[0], nil
}

// Run writes effects until ctx is done.
func (w *writer) Run(ctx context.Context) {
	bytes := func(one *waiting) int { return size(&one.effect) }
	for {
		select {
		case <-w.more:
		case <-ctx.Done():
			return
		}
		for ws := w.take(bytes); len(ws) > 0; ws = w.take(bytes) {
			w.flush(ctx, ws)
		}
	}
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

// flush writes ws in one commit. If the commit fails while the database answers, one of ws is the reason. In
// this case flush writes each in its own commit.
func (w *writer) flush(ctx context.Context, ws []*waiting) {
	es := make([]store.Effect, len(ws))
	for i, one := range ws {
		es[i] = one.effect
	}
	within, cancel := context.WithTimeout(ctx, w.timeout)
	stored, err := w.db.Apply(within, es...)
	cancel()
	alone := err != nil && len(ws) > 1 && !w.db.Outage(err)
	for i, one := range ws {
		switch {
		case alone:
			one.stored, one.err = w.Alone(ctx, one.effect)
		case err != nil:
			one.err = fmt.Errorf("write a transition: %w", err)
		default:
			one.stored = stored[i]
		}
		close(one.done)
	}
}
