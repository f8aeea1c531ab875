// Package plan decides how a saga moves on. It is pure: it reads no clock, calls nobody, and knows no type of
// a user's.
//
// A Graph is what a definition says; a Plan is a graph that is ready to use. A State is how far one saga has
// come. Advance takes a state and an event and returns the next state with the actions that follow. Pending
// returns the actions of a state alone, so an engine that takes a saga over after a crash goes on where the
// other one stood.
//
//	event ─► Advance(state) ─► state to store, with its guard
//	                       └─► actions: decide, run, settle, undo, finish, alarm
package plan

import (
	"slices"
	"time"
)

// A Kind is how a step does its work.
type Kind string

// Kinds of steps.
const (
	Do      Kind = "do"      // in the user's transaction, together with the saga's next state
	Call    Kind = "call"    // a request to the outside: intent, request, answer
	Command Kind = "command" // a message to a participant, which replies
	Wait    Kind = "wait"    // for a signal, or for a time
	Child   Kind = "child"   // another saga
	Lock    Kind = "lock"    // until entities are the saga's own
)

// A Policy says how often one direction of a step is tried.
type Policy struct {
	Attempts        int           `json:"attempts,omitempty"` // at most; 0: without end
	InitialInterval time.Duration `json:"first,omitempty"`    // wait after the first failure; it doubles
	// longest wait, without the half of it that may come on top
	MaxInterval time.Duration `json:"most,omitempty"`
	// of one attempt: of a run, or of the wait for a reply. 0: none
	Timeout time.Duration `json:"timeout,omitempty"`
}

// A Step is one node of a graph.
type Step struct {
	Name     string   `json:"name"`
	Kind     Kind     `json:"kind"`
	After    []string `json:"after,omitempty"` // steps that have to be passed before it begins
	Pivot    bool     `json:"pivot,omitempty"` // once it is done, nothing is undone any more
	Undo     bool     `json:"undo,omitempty"`  // it has an undo
	NoEffect bool     `json:"no_effect,omitempty"`
	When     bool     `json:"when,omitempty"`   // its condition is asked first: Decide
	Each     bool     `json:"each,omitempty"`   // its occurrences are asked first: Decide
	Signal   string   `json:"signal,omitempty"` // of a Wait: what it waits for; "": for a time
	Child    string   `json:"child,omitempty"`  // of a Child: the name of its definition
	Locks    bool     `json:"locks,omitempty"`  // of a Child: a Lock is among its steps, or its children's
	// of a Wait for a signal: it is skipped once its time is up. Else it fails then
	Lapses bool   `json:"lapses,omitempty"`
	Shape  string `json:"shape,omitempty"` // of its output, as JSON
	// what its output is read as, where the shape does not tell: int8 for a number. It is no part of the
	// hash, and earlier builds do not note it
	Reads string `json:"reads,omitempty"`

	Try  Policy `json:"try,omitzero"`
	Back Policy `json:"back,omitzero"` // of its undo, and of settling it before that
}

// A Graph is a definition as data.
type Graph struct {
	Name     string        `json:"name"`
	Deadline time.Duration `json:"deadline,omitempty"` // since the saga began. 0: none
	Shape    string        `json:"shape,omitempty"`    // of the input, as JSON
	// of each output, as JSON; 0: it is not known. It is no part of the hash
	MaxBytes int    `json:"max_bytes,omitempty"`
	Steps    []Step `json:"steps"`
}

// A Plan is a graph that is ready to use. It is safe for concurrent use.
type Plan struct {
	Graph Graph
	index map[string]int
	after [][]int
	pivot int // -1: none
}

// New returns the plan of a graph that has no Faults.
func New(g Graph) *Plan {
	p := &Plan{Graph: g, index: make(map[string]int, len(g.Steps)), after: make([][]int, len(g.Steps)),
		pivot: -1}
	for i, s := range g.Steps {
		p.index[s.Name] = i
		if s.Pivot {
			p.pivot = i
		}
	}
	for i, s := range g.Steps {
		for _, name := range s.After {
			if at, ok := p.index[name]; ok {
				p.after[i] = append(p.after[i], at)
			}
		}
	}
	return p
}

// Step returns the step of a name.
func (p *Plan) Step(name string) (Step, bool) {
	i, ok := p.index[name]
	if !ok {
		return Step{}, false
	}
	return p.Graph.Steps[i], true
}

// Before tells whether the step b has to wait for a, directly or through others.
func (p *Plan) Before(a, b string) bool {
	from, ok := p.index[b]
	to, also := p.index[a]
	if !ok || !also {
		return false
	}
	seen := make([]bool, len(p.after))
	todo := slices.Clone(p.after[from])
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if i == to {
			return true
		}
		if !seen[i] {
			seen[i] = true
			todo = append(todo, p.after[i]...)
		}
	}
	return false
}
