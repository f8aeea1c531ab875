// This file keeps the list of users' functions that still run in this process after their timeout, and of
// requests in progress.

package engine

import (
	"sync"
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
)

// key identifies a step of a saga, or its undo.
type key struct {
	ID, Step, Occurrence string // ID is the saga's
	Verb                 plan.Verb
}

// hangsOf returns the key of an action of the saga with an id.
func hangsOf(id string, a plan.Action) key { return key{id, a.Step, a.Occurrence, a.Verb} }

// hangingFunction is a call of a user's function that may hang.
type hangingFunction struct {
	Key key
	// hangs and returned are guarded by functions.mu.
	hangs, returned bool
}

// functions lists the functions that hang. The zero value is empty. It is safe for concurrent use.
type functions struct {
	mu      sync.Mutex
	hanging map[key]bool
	later   map[key]time.Duration // durations of attempts that were not counted yet
}

// CountLater records that the attempt of a hanging function is not counted yet. The saga's next pass up to
// that function counts it.
func (h *functions) CountLater(k key, took time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hanging[k] {
		if h.later == nil {
			h.later = map[key]time.Duration{}
		}
		h.later[k] = took
	}
}

// Uncounted returns the duration of an attempt that was not counted yet. It returns each attempt once.
func (h *functions) Uncounted(k key) (took time.Duration, is bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	took, is = h.later[k]
	delete(h.later, k)
	return took, is
}

// Hangs records that f still runs after its timeout. It calls giveUp before Returned can be called. Hangs
// returns false if f has returned, or was recorded before.
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

// Returned records that f has returned. The saga may then call the function again in this process.
func (h *functions) Returned(f *hangingFunction) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f.returned = true
	if f.hangs {
		delete(h.hanging, f.Key)
		delete(h.later, f.Key)
	}
}

// Has reports whether the function k hangs.
func (h *functions) Has(k key) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hanging[k]
}
