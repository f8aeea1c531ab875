// This file tells relays and engines that something was written: those of this process at once, those of
// others by a NOTIFY.

package sqlexec

import (
	"context"
	"sync"
)

// A Waker knows of writes to one schema.
type Waker struct {
	pg       *DB
	notifier notifier

	mu sync.Mutex
	ch chan struct{} // nil: nobody asks
}

// NewWake is the waker of pg. It tells other processes if it is to notify.
func NewWake(pg *DB, notify bool) *Waker {
	w := &Waker{pg: pg}
	if notify {
		w.notifier.send = w.notify
	}
	return w
}

// Woken is closed at the next write.
func (w *Waker) Woken() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ch == nil {
		w.ch = make(chan struct{})
	}
	return w.ch
}

// Wake tells of a write in this process.
func (w *Waker) Wake() {
	w.Here()
	w.notifier.tell()
}

// Here tells this process alone of a write.
func (w *Waker) Here() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ch != nil {
		close(w.ch)
		w.ch = nil
	}
}

// notify sends one notification; who misses it polls.
func (w *Waker) notify(ctx context.Context) {
	_ = w.pg.Short(ctx, "notify", w.pg.Call("Notify", channel, w.pg.Schema))
}
