// Package plan decides how a saga continues. It is pure: it reads no clock, makes no call, and has no types
// of users.
//
// A Graph is a definition as data. A Plan is a graph that is ready to use. A State is the progress of one
// saga. Advance takes a state and an event, and returns the next state with the actions that follow.
// Pending returns the actions of a state. So an engine that takes over a saga after a crash continues from
// the stored state.
package plan

import (
	"slices"
	"time"
)

// Kind is the way in which a step does its work.
type Kind string

// Kinds of steps.
const (
	Do      Kind = "do"      // in the user's transaction, together with the saga's next state
	Call    Kind = "call"    // an external request: intent, request, answer
	Command Kind = "command" // a message to a participant, which replies
	Wait    Kind = "wait"    // for a signal, or for a time
	Child   Kind = "child"   // another saga
	Lock    Kind = "lock"    // until the saga has locked its entities
)

// Policy limits the attempts of a step, or of its undo.
type Policy struct {
	Attempts        int           `json:"attempts,omitempty"` // at most; 0 means no limit
	InitialInterval time.Duration `json:"first,omitempty"`    // wait after the first failure; it doubles
	// MaxInterval is the longest wait, without jitter of up to half of it.
	MaxInterval time.Duration `json:"most,omitempty"`
	// Timeout of one attempt, or of the wait for a reply. 0 means none.
	Timeout time.Duration `json:"timeout,omitempty"`
}

// Step is a node of a graph.
type Step struct {
	Name     string   `json:"name"`
	Kind     Kind     `json:"kind"`
	After    []string `json:"after,omitempty"` // steps that must be done or skipped before it begins
	Pivot    bool     `json:"pivot,omitempty"` // once it is done, nothing is undone
	Undo     bool     `json:"undo,omitempty"`  // it has an undo
	NoEffect bool     `json:"no_effect,omitempty"`
	When     bool     `json:"when,omitempty"`   // it has a condition, which is decided first
	Each     bool     `json:"each,omitempty"`   // it has occurrences, which are decided first
	Signal   string   `json:"signal,omitempty"` // of a Wait: the name of the signal; "" for a time
	Child    string   `json:"child,omitempty"`  // of a Child: the name of its definition
	Locks    bool     `json:"locks,omitempty"`  // of a Child: it, or a child of it, has a Lock
	// Lapses means that a Wait for a signal is skipped after its timeout. Otherwise it fails.
	Lapses bool   `json:"lapses,omitempty"`
	Shape  string `json:"shape,omitempty"` // of its output, as JSON
	// Reads is the type into which the output is decoded, if that differs from Shape: int8 for a number. It
	// is not part of the hash, and earlier builds do not store it.
	Reads string `json:"reads,omitempty"`

	Try  Policy `json:"try,omitzero"`
	Back Policy `json:"back,omitzero"` // of its undo, and of settling it before the undo
}

// Graph is a definition as data.
type Graph struct {
	Name     string        `json:"name"`
	Deadline time.Duration `json:"deadline,omitempty"` // since the start; 0 means none
	Shape    string        `json:"shape,omitempty"`    // of the input, as JSON
	// MaxBytes limits each output as JSON; 0 means unknown. It is not part of the hash.
	MaxBytes int    `json:"max_bytes,omitempty"`
	Steps    []Step `json:"steps"`
}

// Plan is a graph that is ready to use. It is safe for concurrent use.
type Plan struct {
	Graph Graph
	index map[string]int
	after [][]int
	pivot int // -1 if there is none
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

// Step returns the step with a name.
func (p *Plan) Step(name string) (Step, bool) {
	i, ok := p.index[name]
	if !ok {
		return Step{}, false
	}
	return p.Graph.Steps[i], true
}

// Before reports whether the step b waits for a, directly or indirectly.
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
