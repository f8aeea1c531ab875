// This file writes the moves of many sagas in one commit. A move is a saga's new state with its messages.

package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/store"
)

// commitDB is the part of the database that a writer uses.
type commitDB interface {
	Apply(ctx context.Context, es ...store.Effect) ([]bool, error)
	Outage(err error) bool
}

const (
	// shareWait limits the time for which a shared commit waits for locks. A transaction of a user may lock
	// the row of one saga, for example to cancel it, and stay open. The moves of other sagas must not wait
	// for it.
	shareWait = 50 * time.Millisecond
	// apartWait is how long a move whose saga is locked tries again.
	apartWait = 5 * time.Second
	// apartWrites limits the connections of moves that try again.
	apartWrites = 2
)

// writer writes in one commit all moves that arrived during the previous commit. It does not delay a commit
// to collect more.
type writer struct {
	db      commitDB
	timeout time.Duration // limit of one commit
	queue[*waiting]
	more chan struct{} // the queue is no longer empty

	apart  sync.WaitGroup
	places chan struct{} // one for each commit of a single move
}

// newGroupCommit returns a writer. The timeout limits each commit.
func newGroupCommit(db commitDB, timeout time.Duration) *writer {
	return &writer{db: db, timeout: timeout, more: make(chan struct{}, 1),
		places: make(chan struct{}, apartWrites)}
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
	stored, err := w.apply(ctx, e)
	if err != nil {
		return false, err
	}
	return stored[0], nil
}

// apply writes es in one commit.
func (w *writer) apply(ctx context.Context, es ...store.Effect) ([]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	stored, err := w.db.Apply(ctx, es...)
	if err != nil {
		return nil, fmt.Errorf("write a transition: %w", err)
	}
	return stored, nil
}

// Run writes effects until ctx is done.
func (w *writer) Run(ctx context.Context) {
	defer w.apart.Wait()
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

// flush writes ws in one commit. If one of ws is the reason for an error, each of ws gets its own commit in
// the background, so that later moves do not wait.
func (w *writer) flush(ctx context.Context, ws []*waiting) {
	es := make([]store.Effect, len(ws))
	for i, one := range ws {
		es[i] = briefly(one.effect)
	}
	stored, err := w.apply(ctx, es...)
	if store.Contended(err) || err != nil && len(ws) > 1 && !w.db.Outage(err) {
		for _, one := range ws {
			w.apart.Go(func() { w.writeApart(ctx, one) })
		}
		return
	}
	for i, one := range ws {
		if one.err = err; err == nil {
			one.stored = stored[i]
		}
		close(one.done)
	}
}

// briefly returns e with a wait of shareWait for locks.
func briefly(e store.Effect) store.Effect {
	if e.Saga == nil {
		return e
	}
	move := *e.Saga
	move.Wait = shareWait
	e.Saga = &move
	return e
}

// writeApart writes one move in its own commit. While the saga is locked it tries again, and has no
// connection between two tries.
func (w *writer) writeApart(ctx context.Context, one *waiting) {
	defer close(one.done)
	until := time.Now().Add(apartWait)
	for n := 1; ; n++ {
		w.places <- struct{}{}
		stored, err := w.apply(ctx, briefly(one.effect))
		<-w.places
		if err == nil {
			one.stored, one.err = stored[0], nil
			return
		}
		one.err = err
		if !store.Contended(err) || time.Now().After(until) ||
			!backoff.Sleep(ctx, backoff.After(n, shareWait, 10*shareWait)) {
			return
		}
	}
}
