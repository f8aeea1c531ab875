package plan

import (
	"fmt"
	"slices"
)

// Mapping contains the rules by which sagas of an older graph move to a newer one.
type Mapping struct {
	From   string            `json:"from"`             // hash of the older graph
	Rename map[string]string `json:"rename,omitempty"` // from the older name of a step to its newer name
	Skip   []string          `json:"skip,omitempty"`   // new steps that sagas beyond them skip
}

// Class classifies a change by the sagas of the older graph that the newer graph can run.
type Class string

// Classes.
const (
	Compatible Class = "compatible" // all sagas
	// NeedsMap means the sagas that have not begun the step in Begun. A Mapping with a Skip makes the change
	// compatible for the others, too.
	NeedsMap Class = "mapping"
	// Refuses means the sagas that have not begun the step in Begun, or no saga if Begun is "".
	Refuses Class = "refused"
)

// Change is one difference between two graphs.
type Change struct {
	Step  string `json:"step,omitempty"`
	What  string `json:"what"`
	Class Class  `json:"class"`
	Begun string `json:"begun,omitempty"`

	skip bool // the mapping lets those sagas skip the step
}

func (c Change) String() string {
	text := c.What
	if c.Step != "" {
		text = fmt.Sprintf("step %q: %s", c.Step, c.What)
	}
	if c.Begun != "" {
		text += fmt.Sprintf(" (for sagas that have begun %q)", c.Begun)
	}
	return fmt.Sprintf("%s: %s", c.Class, text)
}

// Compare returns the differences that matter to sagas of the older graph if the newer graph runs them. If
// there are none, all these sagas continue unchanged.
func Compare(older, newer Graph, m Mapping) (out []Change) {
	older = m.renamed(older)
	was, is := New(older), New(newer)
	if older.Name != newer.Name {
		return []Change{{What: fmt.Sprintf("it is %q, and was %q: another saga", newer.Name, older.Name),
			Class: Refuses}}
	}
	if why, same := shapeChange(older.Shape, newer.Shape); why != "" {
		out = append(out, Change{What: "its input: " + why, Class: same})
	}
	for _, s := range older.Steps {
		now, there := is.Step(s.Name)
		if !there {
			out = append(out, Change{Step: s.Name,
				What:  "it was removed, so its effect could not be undone; keep the step, or name it in Rename",
				Class: Refuses, Begun: s.Name})
			continue
		}
		out = append(out, changes(s, now)...)
	}
	for _, s := range newer.Steps {
		_, there := was.Step(s.Name)
		for _, later := range newer.Steps {
			_, old := was.Step(later.Name)
			if !old || !is.Before(s.Name, later.Name) || there && was.Before(s.Name, later.Name) {
				continue
			}
			c := Change{Step: s.Name, What: fmt.Sprintf("it comes before %q now", later.Name), Class: Refuses,
				Begun: later.Name}
			if !there && slices.Contains(m.Skip, s.Name) {
				c.What, c.Class, c.skip = c.What+", and is skipped there", Compatible, true
			} else if !there {
				c.What, c.Class = fmt.Sprintf("it is new, before %q; to skip it there, name it in Skip",
					later.Name), NeedsMap
			}
			out = append(out, c)
		}
	}
	return append(append(out, locks(older, newer)...), pivots(was, is)...)
}

// locks returns the changes because of which two sagas could deadlock: a saga that holds entities would lock
// others.
func locks(older, newer Graph) (out []Change) {
	for _, s := range newer.Steps {
		for _, held := range older.Steps {
			if s.locks() && held.locks() && s.Name != held.Name {
				out = append(out, Change{Step: s.Name, What: fmt.Sprintf("it locks entities, as %q did before: "+
					"two sagas could deadlock", held.Name), Class: Refuses, Begun: held.Name})
			}
		}
	}
	return out
}

// pivots returns the changes of the pivot. After its pivot is done, a saga must not undo anything, in any
// definition.
func pivots(was, is *Plan) []Change {
	name := func(p *Plan) string {
		if p.pivot < 0 {
			return ""
		}
		return p.Graph.Steps[p.pivot].Name
	}
	from, to := name(was), name(is)
	switch {
	case from == to:
		return nil
	case from == "":
		return []Change{{Step: to,
			What:  "it is the pivot now: after it is done, no step is undone",
			Class: Compatible}}
	case to != "" && is.Before(to, from):
		return []Change{{Step: to, What: fmt.Sprintf("it is the pivot in place of %q", from),
			Class: Compatible}}
	}
	return []Change{{Step: from, What: "it is no longer the pivot: steps after it could be undone",
		Class: Refuses, Begun: from}}
}

// changes returns the differences of one step.
func changes(was, is Step) (out []Change) {
	add := func(c Class, format string, args ...any) {
		out = append(out, Change{Step: was.Name, What: fmt.Sprintf(format, args...), Class: c,
			Begun: was.Name})
	}
	if was.Kind != is.Kind || was.Signal != is.Signal {
		add(Refuses, "it is a %s %s, and was a %s %s", is.Kind, is.Signal, was.Kind, was.Signal)
	}
	if was.Child != is.Child && was.Kind == is.Kind {
		add(Refuses, "its child is a saga %q, and was a saga %q", is.Child, was.Child)
	}
	if was.Each != is.Each {
		add(Refuses, "only one of the definitions has occurrences")
	}
	if was.Undo && !is.Undo {
		add(Refuses, "its undo was removed")
	}
	if was.NoEffect && is.Undo {
		add(Compatible, "it now has an undo, which also runs for sagas that did the step before")
	}
	if why, class := shapeChange(was.Shape, is.Shape); why != "" {
		add(class, "its output: %s", why)
	}
	return out
}

func (m Mapping) renamed(g Graph) Graph {
	g.Steps = slices.Clone(g.Steps)
	for i := range g.Steps {
		s := &g.Steps[i]
		s.Name = m.Name(s.Name)
		s.After = slices.Clone(s.After)
		for j := range s.After {
			s.After[j] = m.Name(s.After[j])
		}
	}
	return g
}

// Name returns the name in the newer graph of a step of the older graph.
func (m Mapping) Name(step string) string {
	if to, ok := m.Rename[step]; ok {
		return to
	}
	return step
}

// Move moves the state of a saga from an older graph to a newer one. It returns an error with the first
// change that prevents this.
func Move(older, newer Graph, m Mapping, s State) (State, error) {
	if s.Status.Final() {
		return s, nil
	}
	s.Runs = slices.Clone(s.Runs)
	begun := map[string]bool{}
	for i := range s.Runs {
		r := &s.Runs[i]
		if to := m.Name(r.Step); to != r.Step {
			r.Step, r.As = to, r.Born()
		}
		begun[r.Step] = begun[r.Step] || r.Phase != Dropped
	}
	s.Ended = slices.Clone(s.Ended)
	for i := range s.Ended {
		s.Ended[i].Step = m.Name(s.Ended[i].Step)
	}
	s.Failures = slices.Clone(s.Failures)
	for i := range s.Failures {
		s.Failures[i].Step = m.Name(s.Failures[i].Step)
	}
	if s.Cause != nil {
		cause := *s.Cause
		cause.Step = m.Name(cause.Step)
		s.Cause = &cause
	}
	var skipped []Run
	for _, c := range Compare(older, newer, m) {
		hit := c.Begun == "" || begun[c.Begun]
		if !hit {
			continue
		}
		switch {
		case c.Class == Refuses, c.Class == NeedsMap && s.Status == Running:
			return s, fmt.Errorf("the saga %s cannot continue: %v", s.ID, c)
		case c.skip && !begun[c.Step] && s.Status == Running:
			begun[c.Step] = true
			skipped = append(skipped, Run{Step: c.Step, As: born(s.Runs, c.Step), Phase: Skipped,
				Error: "the step did not exist when the saga began"})
		}
	}
	s.Runs = append(s.Runs, skipped...)
	return s, nil
}
