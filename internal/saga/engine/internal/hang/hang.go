// Package hang knows which functions of a user's go on in this process though their time is over.
package hang

import (
	"sync"

	"github.com/skald-go/skald/internal/saga/plan"
)

// A Key names what a function is called for: a step of a saga, or its undo.
type Key struct {
	ID, Step, Occurrence string // ID is the saga's
	Verb                 plan.Verb
}

// Of is the key of an action of the saga of an id.
func Of(id string, a plan.Action) Key { return Key{id, a.Step, a.Occurrence, a.Verb} }

// A Function is one that runs, or did.
type Function struct {
	Key Key
	// under Functions.mu
	hangs, returned bool
}

// Functions are those that hang. The zero value has none. It is for any goroutine.
type Functions struct {
	mu      sync.Mutex
	hanging map[Key]bool
}

// Hangs notes that f goes on though its time is over. GiveUp is called then, before Returned can be. False: f
// has returned.
func (h *Functions) Hangs(f *Function, giveUp func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if f.returned {
		return false
	}
	if h.hanging == nil {
		h.hanging = map[Key]bool{}
	}
	f.hangs, h.hanging[f.Key] = true, true
	giveUp()
	return true
}

// Returned notes that f has returned after all.
func (h *Functions) Returned(f *Function) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f.returned = true
	if f.hangs {
		delete(h.hanging, f.Key)
	}
}

// Has tells whether a function hangs.
func (h *Functions) Has(k Key) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hanging[k]
}
