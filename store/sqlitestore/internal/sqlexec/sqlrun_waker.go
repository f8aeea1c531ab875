package sqlexec

import "sync"

// waker wakes the goroutines that wait for a write.
type waker struct {
	mu sync.Mutex
	ch chan struct{}
}

func newWaker() *waker { return &waker{ch: make(chan struct{})} }

// Woken returns a channel that the next Wake closes.
func (w *waker) Woken() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ch
}

// Wake closes the channel of Woken.
func (w *waker) Wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.ch)
	w.ch = make(chan struct{})
}
