package flow

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

const maxName = 1 << 10

// mistakes returns the errors of the flow, each with its remedy.
func (f *Flow) mistakes() (found []string) {
	say := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	if f.name == "" || len(f.name) > maxName || !utf8.ValidString(f.name) {
		say("the name must be text of 1 to %d bytes", maxName)
	}
	if len(f.eventsOf(from)) == 0 {
		say("nothing begins it: add flow.From")
	}
	if len(f.eventsOf(end)) == 0 {
		say("nothing ends it: add flow.End")
	}
	for _, r := range f.rules {
		found = append(found, r.mistakes()...)
	}
	reached := f.reached(Name{})
	for _, n := range f.Events() {
		switch follows := f.follows(n); {
		case !slices.Contains(reached, n):
			say("%s cannot occur: no flow.Then leads to it from the first event", n)
		case !follows && !slices.Contains(f.eventsOf(end), n) && !slices.Contains(f.eventsOf(undo), n):
			say("%s has no consumer: add flow.Then(%s, …), or name it in flow.End", n, n)
		}
	}
	for _, failure := range f.eventsOf(fail) {
		for _, step := range f.unsafe(failure) {
			say("%s may occur before the failure %s, and nothing undoes it: add flow.Undo(%s, …)", step,
				failure, step)
		}
	}
	for i, r := range f.rulesOf(undo) {
		if slices.ContainsFunc(f.rulesOf(undo)[:i], func(o Rule) bool { return o.cause == r.cause }) {
			say("two rules undo %s: keep one of them", r.cause)
		}
	}
	return found
}

func (r Rule) mistakes() (found []string) {
	if len(r.events) == 0 {
		found = append(found, fmt.Sprintf("a rule about %q names no event", r.cause))
	}
	all := r.events
	if r.kind == then || r.kind == undo {
		all = append([]Name{r.cause}, r.events...)
	}
	for _, n := range all {
		if n.Topic == "" || n.Type == "" {
			found = append(found, fmt.Sprintf("an event has the topic %q and the type %q: it needs both",
				n.Topic, n.Type))
		}
	}
	if r.asks > 1 || r.asks == 1 && r.ask == nil {
		found = append(found,
			fmt.Sprintf("the undo of %s has several Asks, or a nil one: give flow.Undo at most one Ask",
				r.cause))
	}
	if r.within < 0 || r.within > 0 && r.kind != then && r.kind != undo {
		found = append(found, "Within is for flow.Then and flow.Undo, and is not negative")
	}
	return found
}

func (f *Flow) follows(n Name) bool {
	return slices.ContainsFunc(f.rulesOf(then), func(r Rule) bool { return r.cause == n })
}

// reached returns the events that can follow the first events. The argument only is an event, or zero. A
// rule that has this event among its outcomes has no other outcome.
func (f *Flow) reached(only Name) []Name {
	out := slices.Clone(f.eventsOf(from))
	for i := 0; i < len(out); i++ {
		for _, r := range f.rules {
			if r.kind != then && r.kind != undo || r.cause != out[i] {
				continue
			}
			next := r.events
			if slices.Contains(next, only) {
				next = []Name{only}
			}
			for _, n := range next {
				if !slices.Contains(out, n) {
					out = append(out, n)
				}
			}
		}
	}
	return out
}

// unsafe returns the steps that may have taken effect before failure and have no declared undo. First events,
// failures, ends and undos need no undo. Steps that only follow the failure need none either.
func (f *Flow) unsafe(failure Name) (out []Name) {
	exempt := slices.Concat(f.eventsOf(from), f.eventsOf(fail), f.eventsOf(end), f.eventsOf(undo))
	after := f.following(failure)
	for _, n := range f.reached(failure) {
		if _, undoable := f.undoOf(n); !undoable && !slices.Contains(exempt, n) &&
			!slices.Contains(after, n) {
			out = append(out, n)
		}
	}
	return out
}

// following returns n and all events that can follow n.
func (f *Flow) following(n Name) []Name {
	rules := slices.DeleteFunc(slices.Clone(f.rules), func(r Rule) bool { return r.kind == from })
	return (&Flow{rules: append(rules, Rule{kind: from, events: []Name{n}})}).reached(Name{})
}
