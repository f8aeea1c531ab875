// Package ending tells those that wait for a saga how it has ended in this process.
package ending

import (
	"slices"
	"sync"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

// An Ending is a saga as it has ended.
type Ending struct {
	Saga  store.Saga
	State plan.State
}

// Waiters are those that wait. The zero value has none. It is for any goroutine.
type Waiters struct {
	mu sync.Mutex
	by map[store.SagaRef][]chan Ending // by name and key
}

// Add returns a channel that is told once how the saga ends. Leave ends the wait.
func (w *Waiters) Add(at store.SagaRef) (c <-chan Ending, leave func()) {
	told := make(chan Ending, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.by == nil {
		w.by = map[store.SagaRef][]chan Ending{}
	}
	w.by[at] = append(w.by[at], told)
	return told, func() { w.leave(at, told) }
}

func (w *Waiters) leave(at store.SagaRef, told chan Ending) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.by[at] = slices.DeleteFunc(w.by[at], func(one chan Ending) bool { return one == told })
	if len(w.by[at]) == 0 {
		delete(w.by, at)
	}
}

// Tell tells those that wait for a saga how it has ended.
func (w *Waiters) Tell(at store.SagaRef, is Ending) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.by[at] {
		c <- is
	}
	delete(w.by, at)
}
