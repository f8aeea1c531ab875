// Package flow tracks choreographed sagas. A team declares once which event can follow which. The tracker
// stores a row for each saga. The row has the saga's state, the events that it waits for and since when, the
// remaining events, and whether the saga is overdue.
//
//	placing, err := flow.New("order", flow.From(OrderPlaced),
//		flow.Then(OrderPlaced, PaymentTaken, PaymentDeclined).Within(time.Minute),
//		flow.Then(PaymentTaken, OrderConfirmed, StockShort),
//		flow.Then(StockShort, OrderCancelled), flow.Then(PaymentDeclined, OrderCancelled),
//		flow.Fail(PaymentDeclined, StockShort), flow.Undo(PaymentTaken, PaymentRefunded),
//		flow.End(OrderConfirmed, OrderCancelled))
//
// A Flow is a plain value. A Tracker is another consumer of the same topics. It only observes: it publishes
// no messages, and the services do not depend on it.
package flow

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald"
)

// Event is an event of a flow. Each skald.Event is one, regardless of its payload.
type Event interface {
	Declared() (topic, typ string, codec skald.Codec)
}

// Name is the topic and the type of an event.
type Name struct {
	Topic string `json:"topic"`
	Type  string `json:"type"`
}

func (n Name) String() string { return n.Type }

func (n Name) compare(m Name) int {
	return strings.Compare(n.Type+"\x00"+n.Topic, m.Type+"\x00"+m.Topic)
}

// Rule is one declaration of a flow.
type Rule struct {
	kind   ruleKind
	cause  Name
	events []Name
	within time.Duration
	ask    Ask // of an undo; nil if an operator cannot request the undo
	asks   int // number of Asks given to Undo
}

type ruleKind int

const (
	from ruleKind = iota
	then
	fail
	undo
	end
)

// From declares the events that can begin a saga. Each saga begins with one of them.
func From(events ...Event) Rule { return Rule{kind: from, events: names(events)} }

// Then declares that exactly one of the outcomes follows cause. Several rules may have the same cause. They
// then run in parallel, and each has an outcome.
func Then(cause Event, outcomes ...Event) Rule {
	return Rule{kind: then, cause: nameOf(cause), events: names(outcomes)}
}

// Within returns r with a time limit: the saga is overdue if no outcome arrives within d after the cause. By
// default there is no limit.
func (r Rule) Within(d time.Duration) Rule {
	r.within = d
	return r
}

// Fail declares the events that make a saga fail. All steps that took effect and have an Undo must then be
// undone.
func Fail(events ...Event) Rule { return Rule{kind: fail, events: names(events)} }

// Undo declares that the event undone reports the undo of step. Rule.Within limits the time from the
// failure to this event. If you pass an Ask, an operator can request the undo: see operate.Compensate.
func Undo(step, undone Event, ask ...Ask) Rule {
	r := Rule{kind: undo, cause: nameOf(step), events: names([]Event{undone}), asks: len(ask)}
	if r.asks > 0 {
		r.ask = ask[0]
	}
	return r
}

// End declares the events that can end a saga. Each saga ends with one of them.
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

// Flow is the declared flow of a kind of saga.
type Flow struct {
	name  string
	rules []Rule
}

// MistakeError lists all errors in the declaration of a flow.
type MistakeError struct {
	Flow  string
	Found []string
}

func (e *MistakeError) Error() string {
	return fmt.Sprintf("flow %s: %s", e.Flow, strings.Join(e.Found, "; "))
}

// New returns a flow with these rules. It returns a *MistakeError if an event cannot follow from the first
// events, if an event neither ends the saga nor has a rule for its outcomes, or if a failure leaves a step
// without an undo.
func New(name string, rules ...Rule) (*Flow, error) {
	f := &Flow{name: name, rules: rules}
	if found := f.mistakes(); len(found) > 0 {
		return nil, &MistakeError{Flow: name, Found: found}
	}
	return f, nil
}

// Name returns the name of the flow.
func (f *Flow) Name() string { return f.name }

// Events returns all events of the flow, in the order in which the rules name them.
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

// eventsOf returns the events that rules of a kind name.
func (f *Flow) eventsOf(kind ruleKind) (out []Name) {
	for _, r := range f.rules {
		if r.kind == kind {
			out = append(out, r.events...)
		}
	}
	return out
}

// rulesOf returns the rules of a kind.
func (f *Flow) rulesOf(kind ruleKind) (out []Rule) {
	for _, r := range f.rules {
		if r.kind == kind {
			out = append(out, r)
		}
	}
	return out
}

// causes returns the events that n can follow. It returns none if n begins a saga.
func (f *Flow) causes(n Name) (out []Name) {
	for _, r := range f.rules {
		if (r.kind == then || r.kind == undo) && slices.Contains(r.events, n) {
			out = append(out, r.cause)
		}
	}
	return out
}

func (f *Flow) undoOf(step Name) (Rule, bool) {
	for _, r := range f.rulesOf(undo) {
		if r.cause == step {
			return r, true
		}
	}
	return Rule{}, false
}
