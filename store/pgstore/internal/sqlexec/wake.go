// This file wakes relays and engines after a write: those of this process immediately, others by NOTIFY.

package sqlexec

import (
	"context"
	"sync"
)

// Waker wakes the relays and engines of one schema after a write.
type Waker struct {
	pg       *DB
	notifier notifier

	mu sync.Mutex
	ch chan struct{} // closed at the next write; nil: nobody waits
}

// NewWake returns the waker of pg. With notify it also notifies other processes.
func NewWake(pg *DB, notify bool) *Waker {
	w := &Waker{pg: pg}
	if notify {
		w.notifier.send = w.notify
	}
	return w
}

// Woken returns a channel that is closed at the next write.
func (w *Waker) Woken() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ch == nil {
		w.ch = make(chan struct{})
	}
	return w.ch
}

// Wake reports a write, here and to other processes.
func (w *Waker) Wake() {
	w.Here()
	w.notifier.tell()
}

// Here reports a write to this process only.
func (w *Waker) Here() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ch != nil {
		close(w.ch)
		w.ch = nil
	}
}

// notify sends one notification. A process that misses it polls.
func (w *Waker) notify(ctx context.Context) {
	_ = w.pg.Short(ctx, "notify", w.pg.Call("Notify", channel, w.pg.Schema))
}
