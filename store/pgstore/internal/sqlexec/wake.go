package sqlexec

import (
	"context"
	"sync"
)

// Waker wakes the relays and engines of one schema after a write. It wakes those of this process immediately,
// and those of other processes by NOTIFY.
type Waker struct {
	pg       *DB
	notifier notifier

	mu sync.Mutex
	ch chan struct{} // closed at the next write; nil while nothing waits
}

// NewWake returns the waker of the schema of pg. If notify is true, the waker also notifies other processes.
func NewWake(pg *DB, notify bool) *Waker {
	w := &Waker{pg: pg}
	if notify {
		w.notifier.send = w.notify
	}
	return w
}

// Woken returns a channel that Wake closes at the next write.
func (w *Waker) Woken() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ch == nil {
		w.ch = make(chan struct{})
	}
	return w.ch
}

// Wake wakes the relays and engines of this process and of other processes.
func (w *Waker) Wake() {
	w.Here()
	w.notifier.schedule()
}

// Here wakes the relays and engines of this process only.
func (w *Waker) Here() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ch != nil {
		close(w.ch)
		w.ch = nil
	}
}

// notify sends one NOTIFY. It ignores errors, because relays also poll.
func (w *Waker) notify(ctx context.Context) {
	_ = w.pg.Short(ctx, "notify", w.pg.Call("Notify", channel, w.pg.Schema))
}
