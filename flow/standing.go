package flow

import (
	"fmt"
	"slices"
	"time"
)

// States of a saga.
const (
	Running      = "running"      // it goes forward
	Compensating = "compensating" // it failed, and has not come to its end yet
	Done         = "done"         // it ended, and nothing failed
	Compensated  = "compensated"  // it failed, what was done is undone, and it ended
)

// A Standing is how one saga stands. It follows from the events that were seen, whatever order they came in.
type Standing struct {
	Flow  string `json:"flow,omitzero"`
	Key   string `json:"key,omitzero"`
	State string `json:"state,omitzero"`
	// Steps are the events that came, by their time.
	Steps []Step `json:"steps,omitempty"`
	// Waiting is what has to come next.
	Waiting []Wait `json:"waiting,omitempty"`
	// Missing are events that must have been, since something came that follows them, and have not come yet.
	Missing []Name `json:"missing,omitempty"`
	// Remaining is what may come until the end, if nothing fails; after a failure, what may come until all is
	// undone.
	Remaining []Name `json:"remaining,omitempty"`
	// Undo are the steps that took effect, and that a failure undoes, or has to.
	Undo []Name `json:"would_undo,omitempty"`
	// Stays are the steps that took effect, and of which the flow declares no undo.
	Stays []Name `json:"cannot_undo,omitempty"`
	// Undone are the steps that took effect and were undone. Failed are the events by which the saga failed.
	Undone []Name `json:"undone,omitempty"`
	Failed []Name `json:"failed,omitempty"`
	// Asked are the undos that an operator asked for, and that nobody has reported yet.
	Asked []Asked `json:"asked,omitempty"`
	// Drift is what the flow does not know, or does not allow.
	Drift []string `json:"drift,omitempty"`
	// Trace is the id of the trace of the saga's first message.
	Trace string `json:"trace,omitempty"`

	Overdue bool       `json:"overdue,omitzero"`
	Due     *time.Time `json:"due,omitempty"`     // of the wait that is due first
	At      time.Time  `json:"heard_at,omitzero"` // when the saga was first heard of
	Changed time.Time  `json:"changed_at,omitzero"`
	Keys    [][]byte   `json:"-"` // of its messages
	Refused []string   `json:"-"` // why Compensate undoes nothing; none: it does, if something is left
}

// A Wait is one of several events that has to come.
type Wait struct {
	After Name       `json:"after"`
	For   []Name     `json:"for"`
	Since time.Time  `json:"since"`
	Due   *time.Time `json:"due,omitempty"`
}

// stand says how a saga stands of which r was seen.
func (f *Flow) stand(r *record) Standing {
	s := Standing{Flow: f.name, Steps: r.inTime(), Trace: r.Trace, Failed: r.of(f.all(fail)),
		Undone: f.undone(r)}
	failures := r.of(slices.Concat(f.all(fail), f.all(undo)))
	s.Waiting = f.waits(r, failures)
	s.Missing = f.missing(r)
	s.Undo, s.Stays = f.undos(r), f.stays(r)
	s.Remaining = f.remaining(r, s.Waiting, len(failures) > 0)
	s.Drift = f.drift(r)
	s.bound()
	ended := len(r.of(f.all(end))) > 0 && len(s.Waiting) == 0 && len(s.Missing) == 0
	switch {
	case len(failures) == 0 && ended:
		s.State = Done
	case len(failures) == 0:
		s.State = Running
	case ended:
		s.State = Compensated
	default:
		s.State = Compensating
	}
	return s
}

// bound has s due when the first of its waits is.
func (s *Standing) bound() {
	s.Due = nil
	for _, w := range s.Waiting {
		if w.Due != nil && (s.Due == nil || w.Due.Before(*s.Due)) {
			s.Due = w.Due
		}
	}
}

// ask has s wait for undos that an operator asked for.
func (s *Standing) ask(all []Asked) {
	s.Asked = nil
	for _, a := range all {
		if !slices.Contains(s.Undo, a.Step) {
			continue // undone since
		}
		s.Asked = append(s.Asked, a)
		s.State = Compensating
		if !slices.ContainsFunc(s.Waiting,
			func(w Wait) bool { return w.After == a.Step && slices.Equal(w.For, a.For) }) {
			s.Waiting = append(s.Waiting, Wait{After: a.Step, For: a.For, Since: a.At, Due: a.Due})
		}
	}
	if len(all) > 0 && len(s.Failed) == 0 && len(s.Undone) > 0 && len(s.Undo)+len(s.Stays)+
		len(s.Waiting) == 0 {
		// the operator is the failure: no event of one comes, and none that follows it has to
		s.State, s.Missing, s.Remaining = Compensated, nil, nil
	}
	s.bound()
}

// stays are the steps that took effect, and that nothing undoes. First events, failures, ends and undos are
// none.
func (f *Flow) stays(r *record) (out []Name) {
	exempt := slices.Concat(f.all(from), f.all(fail), f.all(end), f.all(undo))
	for _, s := range r.Steps {
		if _, undoable := f.undoOf(s.Name); !undoable && !slices.Contains(exempt, s.Name) &&
			slices.Contains(f.Events(), s.Name) {
			out = append(out, s.Name)
		}
	}
	return out
}

// waits are the outcomes that have to come. After a failure a branch beside it may end in silence, since its
// step may be barred: only what follows the failure has to come, and the undos.
func (f *Flow) waits(r *record, failures []Name) (out []Wait) {
	var after []Name
	for _, n := range failures {
		after = append(after, f.from(n)...)
	}
	for _, rule := range f.rules {
		cause, seen := r.find(rule.cause)
		if !seen || len(r.of(rule.events)) > 0 {
			continue
		}
		since := cause.At
		switch {
		case rule.kind == then && (len(failures) == 0 || slices.Contains(after, rule.cause)):
		case rule.kind == undo && len(failures) > 0:
			if at := r.first(failures); at.After(since) {
				since = at
			}
		default:
			continue
		}
		w := Wait{After: rule.cause, For: rule.events, Since: since}
		if rule.within > 0 {
			due := since.Add(rule.within)
			w.Due = &due
		}
		out = append(out, w)
	}
	return out
}

// first is when the first of names came.
func (r *record) first(names []Name) (at time.Time) {
	for _, n := range names {
		if s, seen := r.find(n); seen && (at.IsZero() || s.At.Before(at)) {
			at = s.At
		}
	}
	return at
}

// missing are causes of what was seen, where none of them was. One that begins a saga needs none.
func (f *Flow) missing(r *record) (out []Name) {
	for _, s := range r.Steps {
		causes := f.causes(s.Name)
		if slices.Contains(f.all(from), s.Name) || len(r.of(causes)) > 0 {
			continue
		}
		for _, n := range causes {
			if !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	return out
}

// undos are the steps that took effect and were not undone.
func (f *Flow) undos(r *record) (out []Name) {
	for _, rule := range f.of(undo) {
		if r.has(rule.cause) && len(r.of(rule.events)) == 0 {
			out = append(out, rule.cause)
		}
	}
	return out
}

// undone are the steps that took effect and were undone.
func (f *Flow) undone(r *record) (out []Name) {
	for _, rule := range f.of(undo) {
		if r.has(rule.cause) && len(r.of(rule.events)) > 0 {
			out = append(out, rule.cause)
		}
	}
	return out
}

func (f *Flow) remaining(r *record, waits []Wait, failed bool) (out []Name) {
	rules := slices.Clone(f.of(then))
	for i := range rules {
		if !failed { // the way on which nothing fails
			rules[i].events = slices.DeleteFunc(slices.Clone(rules[i].events),
				func(n Name) bool { return slices.Contains(f.all(fail), n) })
		}
	}
	for _, w := range waits {
		begin := w.For
		if !failed {
			begin = slices.DeleteFunc(slices.Clone(begin),
				func(n Name) bool { return slices.Contains(f.all(fail), n) })
		}
		ahead := &Flow{rules: append(slices.Clone(rules), Rule{kind: from, events: begin})}
		for _, n := range ahead.reached(Name{}) {
			if !r.has(n) && !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	return out
}

func (f *Flow) drift(r *record) (out []string) {
	known := f.Events()
	for _, s := range r.Steps {
		if !slices.Contains(known, s.Name) {
			out = append(out, fmt.Sprintf("the flow does not know %s of topic %s", s.Type, s.Topic))
		}
	}
	if r.Drift {
		out = append(out, "and others that the flow does not know")
	}
	for _, q := range r.Asks {
		if q.Broken != "" {
			out = append(out, fmt.Sprintf("the event that asks for the undo of %s cannot be built: %s",
				q.Name, q.Broken))
		}
	}
	for _, rule := range f.of(undo) {
		if did, undid := r.times(rule.cause), r.times(rule.events...); 0 < undid && undid < did {
			out = append(out,
				fmt.Sprintf("%s came %d times, and its undo %d times: whether each is undone is not known",
					rule.cause, did, undid))
		}
	}
	for _, rule := range f.of(then) {
		if came := r.of(rule.events); r.has(rule.cause) && len(came) > 1 {
			out = append(out, fmt.Sprintf("after %s came %s and %s: the flow allows one of them", rule.cause,
				came[0], came[1]))
		}
	}
	if ends := r.of(f.all(end)); len(ends) > 1 {
		out = append(out, fmt.Sprintf("it ended with %s and with %s", ends[0], ends[1]))
	}
	return out
}
