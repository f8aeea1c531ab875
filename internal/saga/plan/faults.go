package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of a graph.
const (
	maxSteps = 1000
	maxName  = 255
)

// Faults returns all errors in a graph.
func (g Graph) Faults() (out []error) {
	fault := func(format string, args ...any) { out = append(out, fmt.Errorf(format, args...)) }
	if g.Name == "" || len(g.Name) > maxName || !text(g.Name) {
		fault("its name %.40q is not a text of 1 to %d bytes", g.Name, maxName)
	}
	if n := len(g.Steps); n == 0 || n > maxSteps {
		fault("it has %d steps, and needs 1 to %d", n, maxSteps)
		return out
	}
	names, signals := map[string]bool{}, map[string]string{}
	for i, s := range g.Steps {
		switch {
		case s.Name == "" || len(s.Name) > maxName || !text(s.Name):
			fault("step %d: its name %.40q is not a text of 1 to %d bytes", i+1, s.Name, maxName)
		case names[s.Name]:
			fault("step %q is listed twice: each step needs its own name", s.Name)
		}
		names[s.Name] = true
		if other, twice := signals[s.Signal]; twice && s.Signal != "" {
			fault("steps %q and %q wait for the same signal %q, and a repeated signal would count for both: use different signals", other, s.Name, s.Signal)
		}
		signals[s.Signal] = s.Name
	}
	for _, s := range g.Steps {
		for _, a := range s.After {
			if !names[a] {
				fault("step %q: it comes after %q, which is not listed", s.Name, a)
			}
		}
		if s.Pivot && s.Each {
			fault("step %q: a pivot cannot have occurrences: some of them would be done and others not",
				s.Name)
		}
		if s.NoEffect && s.Undo {
			fault("step %q: it has an undo and NoEffect: remove one of them", s.Name)
		}
	}
	out = append(out, g.lockFaults()...)
	g = g.withUniqueNames()
	if cycle := g.cycle(); len(cycle) > 0 {
		fault("the steps %s wait for each other", strings.Join(cycle, " → "))
		return out
	}
	return append(out, g.pivotFaults()...)
}

// withUniqueNames returns g with a unique name for each step, so that Faults also finds the other faults of a
// graph with duplicate names. A reference to a duplicate name means the last step before it with this name.
func (g Graph) withUniqueNames() Graph {
	g.Steps = slices.Clone(g.Steps)
	taken, now := map[string]bool{}, map[string]string{}
	for _, s := range g.Steps {
		taken[s.Name] = true
	}
	for i := range g.Steps {
		s := &g.Steps[i]
		s.After = slices.Clone(s.After)
		for j, a := range s.After {
			s.After[j] = cmp.Or(now[a], a)
		}
		name := s.Name
		if _, twice := now[name]; twice {
			for s.Name += " (again)"; taken[s.Name]; {
				s.Name += " (again)"
			}
		}
		taken[s.Name], now[name] = true, s.Name
	}
	return g
}

func text(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// cycle returns the names of steps that wait for each other, or nil. The first name is repeated at the end.
func (g Graph) cycle() []string {
	p := New(g)
	const under, over = 1, 2
	state := make([]int, len(g.Steps))
	var path []int
	var visit func(i int) []string
	visit = func(i int) []string {
		if state[i] == over {
			return nil
		}
		if state[i] == under {
			var names []string
			for _, at := range append(path[slices.Index(path, i):], i) {
				names = append(names, g.Steps[at].Name)
			}
			return names
		}
		state[i], path = under, append(path, i)
		for _, at := range p.after[i] {
			if c := visit(at); c != nil {
				return c
			}
		}
		state[i], path = over, path[:len(path)-1]
		return nil
	}
	for i := range g.Steps {
		if c := visit(i); c != nil {
			return c
		}
	}
	return nil
}

// pivotFaults returns the faults because of which a step could not be undone before the pivot, or would have
// to be undone after it.
func (g Graph) pivotFaults() (out []error) {
	p := New(g)
	var pivots []string
	for _, s := range g.Steps {
		if s.Pivot {
			pivots = append(pivots, s.Name)
		}
	}
	if len(pivots) > 1 {
		return []error{fmt.Errorf("the steps %s are pivots, and there can be one",
			strings.Join(pivots, ", "))}
	}
	for _, s := range g.Steps {
		after := false
		if len(pivots) == 1 && !s.Pivot {
			after = p.Before(pivots[0], s.Name)
			if !after && !p.Before(s.Name, pivots[0]) {
				out = append(out,
					fmt.Errorf("step %q runs in parallel with the pivot %q: it must come before or after it",
						s.Name, pivots[0]))
				continue
			}
		}
		switch {
		case s.Pivot:
		case after && s.Undo && s.Kind != Child && s.Kind != Lock:
			out = append(out,
				fmt.Errorf("step %q has an undo, and comes after the pivot %q: it would never be called",
					s.Name, pivots[0]))
		case !after && !s.Undo && !s.NoEffect && s.Kind == Child:
			out = append(out,
				fmt.Errorf("step %q: its child has a pivot, so it cannot be undone: let it be this saga's pivot, or come after it", s.Name))
		case !after && !s.Undo && !s.NoEffect:
			out = append(out,
				fmt.Errorf("step %q has no undo: add one, or NoEffect if there is nothing to undo",
					s.Name))
		}
	}
	return out
}

// lockFaults returns the faults because of which two sagas could deadlock: a saga that holds entities would
// wait for others.
func (g Graph) lockFaults() (out []error) {
	var locks []string
	for _, s := range g.Steps {
		if !s.locks() {
			continue
		}
		locks = append(locks, s.Name)
		if s.Each {
			out = append(out, fmt.Errorf("step %q: it locks entities, and has occurrences, which could wait for "+
				"each other: lock all of them in one step before it", s.Name))
		}
	}
	if len(locks) > 1 {
		out = append(out, fmt.Errorf("the steps %s lock entities, themselves or in a child, so that two sagas "+
			"could wait for each other: lock all of them in one step before the others", strings.Join(locks, ", ")))
	}
	return out
}

// HasPivot reports whether the graph has a pivot.
func (p *Plan) HasPivot() bool { return p.pivot >= 0 }

// Hash returns the same hash for graphs that treat sagas in the same way. So it ignores policies, the
// deadline, and the data with which an operator's input is checked.
func (g Graph) Hash() string {
	g.Deadline, g.MaxBytes, g.Steps = 0, 0, slices.Clone(g.Steps)
	for i := range g.Steps {
		g.Steps[i].Try, g.Steps[i].Back, g.Steps[i].Reads = Policy{}, Policy{}, ""
		g.Steps[i].After = slices.Sorted(slices.Values(g.Steps[i].After))
	}
	data, err := json.Marshal(g)
	if err != nil { // a Graph has only texts, numbers and flags
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}
