package sqlrun

import "sync"

// A Waker tells all who wait.
type Waker struct {
	mu sync.Mutex
	ch chan struct{}
}

func newWaker() *Waker { return &Waker{ch: make(chan struct{})} }

// Woken is closed by the next Wake.
func (w *Waker) Woken() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ch
}

// Wake wakes them.
func (w *Waker) Wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.ch)
	w.ch = make(chan struct{})
}
