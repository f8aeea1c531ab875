// Package flow lets a team declare once which events of a choreographed saga follow which, and keeps one row
// for each saga that says where it stands: done, waiting for what and since when, what remains, overdue.
//
//	placing, err := flow.New("order", flow.From(OrderPlaced),
//		flow.Then(OrderPlaced, PaymentTaken, PaymentDeclined).Within(time.Minute),
//		flow.Then(PaymentTaken, OrderConfirmed, StockShort),
//		flow.Then(StockShort, OrderCancelled), flow.Then(PaymentDeclined, OrderCancelled),
//		flow.Fail(PaymentDeclined, StockShort), flow.Undo(PaymentTaken, PaymentRefunded),
//		flow.End(OrderConfirmed, OrderCancelled))
//
// A Flow is a plain value. A Tracker is one more consumer of the same topics: it publishes nothing and steers
// nothing.
package flow

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald"
)

// An Event names events of a flow. A skald.Event of any payload is one.
type Event interface {
	Declared() (topic, typ string, codec skald.Codec)
}

// A Name is the topic and the type of an event.
type Name struct {
	Topic string `json:"topic"`
	Type  string `json:"type"`
}

func (n Name) String() string { return n.Type }

func (n Name) compare(m Name) int {
	return strings.Compare(n.Type+"\x00"+n.Topic, m.Type+"\x00"+m.Topic)
}

// A Rule is one line of a flow.
type Rule struct {
	kind   ruleKind
	cause  Name
	events []Name
	within time.Duration
	ask    Ask // of an undo; nil: nobody can ask for it by hand
	asks   int // that were given
}

type ruleKind int

const (
	from ruleKind = iota
	then
	fail
	undo
	end
)

// From names the events that a saga begins with: one of them.
func From(events ...Event) Rule { return Rule{kind: from, events: names(events)} }

// Then says that after cause exactly one of the outcomes comes. Several rules of one cause run side by side:
// each of them has an outcome.
func Then(cause Event, outcomes ...Event) Rule {
	return Rule{kind: then, cause: nameOf(cause), events: names(outcomes)}
}

// Within is r with a limit: the saga is overdue if no outcome came within d after the cause. Default: none.
func (r Rule) Within(d time.Duration) Rule {
	r.within = d
	return r
}

// Fail names the events by which a saga fails. Every step that took effect and has an Undo is to be undone
// then.
func Fail(events ...Event) Rule { return Rule{kind: fail, events: names(events)} }

// Undo says that undone tells that step was undone. Within bounds the time after the failure. With an Ask an
// operator can have the step undone: see operate.Compensate.
func Undo(step, undone Event, ask ...Ask) Rule {
	r := Rule{kind: undo, cause: nameOf(step), events: names([]Event{undone}), asks: len(ask)}
	if r.asks > 0 {
		r.ask = ask[0]
	}
	return r
}

// End names the events that a saga ends with: one of them.
func End(events ...Event) Rule { return Rule{kind: end, events: names(events)} }

func names(events []Event) []Name {
	out := make([]Name, len(events))
	for i, e := range events {
		out[i] = nameOf(e)
	}
	return out
}

func nameOf(e Event) Name {
	if e == nil {
		return Name{}
	}
	topic, typ, _ := e.Declared()
	return Name{Topic: topic, Type: typ}
}

// A Flow is the declared flow of a kind of saga.
type Flow struct {
	name  string
	rules []Rule
}

// A MistakeError names everything that is wrong with a flow, one line each.
type MistakeError struct {
	Flow  string
	Found []string
}

func (e *MistakeError) Error() string {
	return fmt.Sprintf("flow %s: %s", e.Flow, strings.Join(e.Found, "; "))
}

// New is a flow of rules. It is a *MistakeError where an event leads nowhere (no rule has it as its cause,
// and it ends nothing), cannot be reached from the first ones, or where a failure leaves a step that nothing
// undoes.
func New(name string, rules ...Rule) (*Flow, error) {
	f := &Flow{name: name, rules: rules}
	if found := f.mistakes(); len(found) > 0 {
		return nil, &MistakeError{Flow: name, Found: found}
	}
	return f, nil
}

// Name of the flow.
func (f *Flow) Name() string { return f.name }

// Events are all events of the flow, in the order in which the rules name them.
func (f *Flow) Events() []Name {
	var out []Name
	add := func(n Name) {
		if n != (Name{}) && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	for _, r := range f.rules {
		add(r.cause)
		for _, n := range r.events {
			add(n)
		}
	}
	return out
}

// all are the events that rules of a kind name.
func (f *Flow) all(kind ruleKind) (out []Name) {
	for _, r := range f.rules {
		if r.kind == kind {
			out = append(out, r.events...)
		}
	}
	return out
}

// of are the rules of a kind.
func (f *Flow) of(kind ruleKind) (out []Rule) {
	for _, r := range f.rules {
		if r.kind == kind {
			out = append(out, r)
		}
	}
	return out
}

// causes are the events that n may follow; none: it begins a saga.
func (f *Flow) causes(n Name) (out []Name) {
	for _, r := range f.rules {
		if (r.kind == then || r.kind == undo) && slices.Contains(r.events, n) {
			out = append(out, r.cause)
		}
	}
	return out
}

func (f *Flow) undoOf(step Name) (Rule, bool) {
	for _, r := range f.of(undo) {
		if r.cause == step {
			return r, true
		}
	}
	return Rule{}, false
}
