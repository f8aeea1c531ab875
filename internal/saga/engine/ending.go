// This file notifies waiters in this process of the end of a saga.

package engine

import (
	"slices"
	"sync"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

// endNotifier is a saga that has ended.
type endNotifier struct {
	Saga  store.Saga
	State plan.State
}

// waiters has the callers that wait for the ends of sagas. The zero value is empty. It is safe for concurrent
// use.
type waiters struct {
	mu sync.Mutex
	by map[store.SagaRef][]chan endNotifier // by name and key
}

// Add returns a channel that receives the end of the saga. The caller must call stop when it no longer
// waits.
func (w *waiters) Add(at store.SagaRef) (c <-chan endNotifier, stop func()) {
	ended := make(chan endNotifier, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.by == nil {
		w.by = map[store.SagaRef][]chan endNotifier{}
	}
	w.by[at] = append(w.by[at], ended)
	return ended, func() { w.leave(at, ended) }
}

func (w *waiters) leave(at store.SagaRef, ended chan endNotifier) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.by[at] = slices.DeleteFunc(w.by[at], func(one chan endNotifier) bool { return one == ended })
	if len(w.by[at]) == 0 {
		delete(w.by, at)
	}
}

// Notify sends the end of a saga to its waiters.
func (w *waiters) Notify(at store.SagaRef, is endNotifier) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.by[at] {
		c <- is
	}
	delete(w.by, at)
}
