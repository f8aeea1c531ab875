// This file lists the users' functions that still run in this process after their timeout, and the requests
// in progress.

package engine

import (
	"sync"
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
)

// key identifies the call of a function: for a step of a saga, or for its undo.
type key struct {
	ID, Step, Occurrence string // ID is the saga's
	Verb                 plan.Verb
}

// hangsOf returns the key of an action of the saga with an id.
func hangsOf(id string, a plan.Action) key { return key{id, a.Step, a.Occurrence, a.Verb} }

// hangingFunction is a running function, or one that has returned.
type hangingFunction struct {
	Key key
	// hangs and returned are under functions.mu.
	hangs, returned bool
}

// functions are those that hang. The zero value is empty. It is safe for concurrent use.
type functions struct {
	mu      sync.Mutex
	hanging map[key]bool
	later   map[key]time.Duration // attempts that are still to be counted, and their durations
}

// ChargeLater records that the attempt of a hanging function is counted once its saga has got so far.
func (h *functions) ChargeLater(k key, took time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hanging[k] {
		if h.later == nil {
			h.later = map[key]time.Duration{}
		}
		h.later[k] = took
	}
}

// Uncounted returns an attempt that is still to be counted, and its duration. It returns each only once.
func (h *functions) Uncounted(k key) (took time.Duration, is bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	took, is = h.later[k]
	delete(h.later, k)
	return took, is
}

// Hangs records that f runs after its timeout, and calls giveUp before Returned can be called. Returns
// false if f has returned, or was recorded before.
func (h *functions) Hangs(f *hangingFunction, giveUp func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if f.returned || f.hangs {
		return false
	}
	if h.hanging == nil {
		h.hanging = map[key]bool{}
	}
	f.hangs, h.hanging[f.Key] = true, true
	giveUp()
	return true
}

// Returned records that f has returned after all.
func (h *functions) Returned(f *hangingFunction) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f.returned = true
	if f.hangs {
		delete(h.hanging, f.Key)
		delete(h.later, f.Key)
	}
}

// Has reports whether a function hangs.
func (h *functions) Has(k key) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hanging[k]
}
