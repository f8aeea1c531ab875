// This file knows which functions of a user's go on in this process though their time is over, and which
// requests are under way.

package engine

import (
	"sync"
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
)

// A key names what a function is called for: a step of a saga, or its undo.
type key struct {
	ID, Step, Occurrence string // ID is the saga's
	Verb                 plan.Verb
}

// hangsOf is the key of an action of the saga of an id.
func hangsOf(id string, a plan.Action) key { return key{id, a.Step, a.Occurrence, a.Verb} }

// A hangingFunction is one that runs, or did.
type hangingFunction struct {
	Key key
	// under Functions.mu
	hangs, returned bool
}

// functions are those that hang. The zero value has none. It is for any goroutine.
type functions struct {
	mu      sync.Mutex
	hanging map[key]bool
	later   map[key]time.Duration // those that are to be charged yet, and how long they took
}

// ChargeLater notes that a function that hangs is charged once its saga has come so far.
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

// Uncharged returns, once, that a function is to be charged, and how long it took.
func (h *functions) Uncharged(k key) (took time.Duration, is bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	took, is = h.later[k]
	delete(h.later, k)
	return took, is
}

// Hangs notes that f goes on though its time is over. GiveUp is called then, before Returned can be. False: f
// has returned.
func (h *functions) Hangs(f *hangingFunction, giveUp func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if f.returned {
		return false
	}
	if h.hanging == nil {
		h.hanging = map[key]bool{}
	}
	f.hangs, h.hanging[f.Key] = true, true
	giveUp()
	return true
}

// Returned notes that f has returned after all.
func (h *functions) Returned(f *hangingFunction) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f.returned = true
	if f.hangs {
		delete(h.hanging, f.Key)
		delete(h.later, f.Key)
	}
}

// Has tells whether a function hangs.
func (h *functions) Has(k key) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hanging[k]
}
