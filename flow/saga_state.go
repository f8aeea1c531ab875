package flow

import (
	"fmt"
	"slices"
	"time"
)

// States of a saga.
const (
	Running      = "running"      // no step has failed
	Compensating = "compensating" // the saga failed, and has not ended yet
	Done         = "done"         // the saga ended without a failure
	Compensated  = "compensated"  // the saga failed, its steps are undone, and it ended
)

// SagaState is the state of one saga. It depends only on the recorded events, and not on their order of
// arrival.
type SagaState struct {
	Flow  string `json:"flow,omitzero"`
	Key   string `json:"key,omitzero"`
	State string `json:"state,omitzero"`
	// Steps has the recorded events, ordered by time.
	Steps []Step `json:"steps,omitempty"`
	// Waiting has the events that must come next.
	Waiting []Wait `json:"waiting,omitempty"`
	// Missing has events that have not arrived, but must have occurred because later events did.
	Missing []Name `json:"missing,omitempty"`
	// Remaining has the events that are still to come until the end, if nothing fails. After a failure, it
	// has those that are to come until all steps are undone.
	Remaining []Name `json:"remaining,omitempty"`
	// Undo has the steps that took effect and were not undone. A failure undoes them.
	Undo []Name `json:"would_undo,omitempty"`
	// Stays has the steps that took effect and have no declared undo.
	Stays []Name `json:"cannot_undo,omitempty"`
	// Undone has the steps that were undone. Failed has the events that made the saga fail.
	Undone []Name `json:"undone,omitempty"`
	Failed []Name `json:"failed,omitempty"`
	// Asked has the undos that an operator requested and that no event has reported yet.
	Asked []Asked `json:"asked,omitempty"`
	// Drift has a text for each event that the flow does not declare or does not allow at this point.
	Drift []string `json:"drift,omitempty"`
	// Trace is the trace ID of the saga's first message.
	Trace string `json:"trace,omitempty"`

	Overdue bool       `json:"overdue,omitzero"`
	Due     *time.Time `json:"due,omitempty"`     // the earliest due time of Waiting
	At      time.Time  `json:"heard_at,omitzero"` // time of the first recorded event
	Changed time.Time  `json:"changed_at,omitzero"`
	Keys    [][]byte   `json:"-"` // keys of the saga's messages
	Refused []string   `json:"-"` // why Compensate would undo nothing; empty if it can undo the saga
}

// Wait is a wait for one of several events.
type Wait struct {
	After Name       `json:"after"`
	For   []Name     `json:"for"`
	Since time.Time  `json:"since"`
	Due   *time.Time `json:"due,omitempty"`
}

// stateOf computes the state of a saga from its recorded events.
func (f *Flow) stateOf(r *record) SagaState {
	s := SagaState{Flow: f.name, Steps: r.inTime(), Trace: r.Trace, Failed: r.recorded(f.eventsOf(fail)),
		Undone: f.undone(r)}
	failures := r.recorded(slices.Concat(f.eventsOf(fail), f.eventsOf(undo)))
	s.Waiting = f.pendingWaits(r, failures)
	s.Missing = f.missingCauses(r)
	s.Undo, s.Stays = f.undos(r), f.stays(r)
	s.Remaining = f.remaining(r, s.Waiting, len(failures) > 0)
	s.Drift = f.drift(r)
	s.bound()
	ended := len(r.recorded(f.eventsOf(end))) > 0 && len(s.Waiting) == 0 && len(s.Missing) == 0
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

// bound sets Due to the earliest due time of the waits.
func (s *SagaState) bound() {
	s.Due = nil
	for _, w := range s.Waiting {
		if w.Due != nil && (s.Due == nil || w.Due.Before(*s.Due)) {
			s.Due = w.Due
		}
	}
}

// ask adds to the state the undos that an operator requested.
func (s *SagaState) ask(all []Asked) {
	s.Asked = nil
	for _, a := range all {
		if !slices.Contains(s.Undo, a.Step) {
			continue // an event has reported the undo
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
		// The operator caused the compensation. So neither a failure nor an event that follows a failure will
		// come.
		s.State, s.Missing, s.Remaining = Compensated, nil, nil
	}
	s.bound()
}

// stays returns the steps that took effect and have no declared undo. First events, failures, ends and undos
// are not counted as steps.
func (f *Flow) stays(r *record) (out []Name) {
	exempt := slices.Concat(f.eventsOf(from), f.eventsOf(fail), f.eventsOf(end), f.eventsOf(undo))
	for _, s := range r.Steps {
		if _, undoable := f.undoOf(s.Name); !undoable && !slices.Contains(exempt, s.Name) &&
			slices.Contains(f.Events(), s.Name) {
			out = append(out, s.Name)
		}
	}
	return out
}

// pendingWaits returns the outcomes that must come. After a failure these are the undos, and the events
// that follow the failure. In this case pendingWaits ignores the outcomes of parallel branches, because a
// barred step emits no event.
func (f *Flow) pendingWaits(r *record, failures []Name) (out []Wait) {
	var after []Name
	for _, n := range failures {
		after = append(after, f.following(n)...)
	}
	for _, rule := range f.rules {
		cause, seen := r.find(rule.cause)
		if !seen || len(r.recorded(rule.events)) > 0 {
			continue
		}
		since := cause.At
		switch {
		case rule.kind == then && (len(failures) == 0 || slices.Contains(after, rule.cause)):
		case rule.kind == undo && len(failures) > 0:
			if at := r.firstTime(failures); at.After(since) {
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

// firstTime returns the earliest time of the recorded events with these names.
func (r *record) firstTime(names []Name) (at time.Time) {
	for _, n := range names {
		if s, seen := r.find(n); seen && (at.IsZero() || s.At.Before(at)) {
			at = s.At
		}
	}
	return at
}

// missingCauses returns the causes of recorded events for which no cause is recorded. Events that begin a
// saga need no cause.
func (f *Flow) missingCauses(r *record) (out []Name) {
	for _, s := range r.Steps {
		causes := f.causes(s.Name)
		if slices.Contains(f.eventsOf(from), s.Name) || len(r.recorded(causes)) > 0 {
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

// undos returns the steps that took effect and were not undone.
func (f *Flow) undos(r *record) (out []Name) {
	for _, rule := range f.rulesOf(undo) {
		if r.has(rule.cause) && len(r.recorded(rule.events)) == 0 {
			out = append(out, rule.cause)
		}
	}
	return out
}

// undone returns the steps that took effect and were undone.
func (f *Flow) undone(r *record) (out []Name) {
	for _, rule := range f.rulesOf(undo) {
		if r.has(rule.cause) && len(r.recorded(rule.events)) > 0 {
			out = append(out, rule.cause)
		}
	}
	return out
}

func (f *Flow) remaining(r *record, waits []Wait, failed bool) (out []Name) {
	rules := slices.Clone(f.rulesOf(then))
	for i := range rules {
		if !failed { // leave out failures
			rules[i].events = slices.DeleteFunc(slices.Clone(rules[i].events),
				func(n Name) bool { return slices.Contains(f.eventsOf(fail), n) })
		}
	}
	for _, w := range waits {
		begin := w.For
		if !failed {
			begin = slices.DeleteFunc(slices.Clone(begin),
				func(n Name) bool { return slices.Contains(f.eventsOf(fail), n) })
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
			out = append(out, fmt.Sprintf("the flow does not declare %s of topic %s", s.Type, s.Topic))
		}
	}
	if r.Drift {
		out = append(out, "and others that the flow does not declare")
	}
	for _, q := range r.Asks {
		if q.Broken != "" {
			out = append(out, fmt.Sprintf("the event that requests the undo of %s cannot be built: %s",
				q.Name, q.Broken))
		}
	}
	for _, rule := range f.rulesOf(undo) {
		if did, undid := r.times(rule.cause), r.times(rule.events...); 0 < undid && undid < did {
			out = append(out,
				fmt.Sprintf("%s occurred %d times, and its undo %d times: some may not be undone",
					rule.cause, did, undid))
		}
	}
	for _, rule := range f.rulesOf(then) {
		if came := r.recorded(rule.events); r.has(rule.cause) && len(came) > 1 {
			out = append(out, fmt.Sprintf("%s was followed by %s and %s: the flow allows one of them", rule.cause,
				came[0], came[1]))
		}
	}
	if ends := r.recorded(f.eventsOf(end)); len(ends) > 1 {
		out = append(out, fmt.Sprintf("it ended with %s and with %s", ends[0], ends[1]))
	}
	return out
}
