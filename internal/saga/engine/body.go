// This file has the types of a saga's definition without type parameters. Package saga builds them from typed
// functions. Each function gets the facts about its saga in Facts.

package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

// Definition is a saga's definition. NewDefinition makes it ready to run.
type Definition struct {
	Name     string
	Hash     string
	Plan     *plan.Plan
	MaxBytes int        // limit of the input and of each output
	Steps    []StepBody // in the order of Plan.Graph.Steps
	Mappings []plan.Mapping

	// Encode returns the key and the JSON of an input of the definition's type.
	Encode func(in any) (key string, data json.RawMessage, err error)
	decode func(data json.RawMessage) (any, error)
	index  map[string]int
}

// StepBody has the functions of one step. Only the fields for the step's own kind are set.
type StepBody struct {
	When func(f *Facts) (bool, error)     // nil: always
	Each func(f *Facts) ([]string, error) // nil: once

	Tx      Transacted                           // of a Do: *Local[TTx]; of a Call: see OutsideOf
	Lock    func(f *Facts) ([]store.Lock, error) // of a Lock: its entities
	Command *Command
	Undo    *Command // of a Command
	Until   func(f *Facts) (time.Time, error)

	OwnCommit bool // a Tx that shares its transaction with no other step
	Child     *Child

	// Check returns an error if an output or a signal does not have the step's type.
	Check func(output json.RawMessage) error
	// Handle is the step's handle in package saga. It distinguishes steps with the same name.
	Handle any
}

// InTx reports whether the step runs in a transaction of the engine's database.
func (s *StepBody) InTx() bool { return s.Tx != nil || s.Lock != nil }

// Transacted is implemented by Local and Outside. Their functions use transactions of one type.
type Transacted interface{ Type() reflect.Type }

// Type returns the type of the transactions.
func (*Local[TTx]) Type() reflect.Type { return reflect.TypeFor[TTx]() }

// Type returns the type of the transactions.
func (*Outside[TTx]) Type() reflect.Type { return reflect.TypeFor[TTx]() }

// AnyTx reports whether the functions of t use no transaction, so that t fits transactions of each type.
func AnyTx(t Transacted) bool { return t.Type() == reflect.TypeFor[any]() }

// OutsideOf returns t as a Call with transactions of type TTx. It returns false if t is not a Call, or has
// another type of transactions. A Call without a transaction type fits any TTx.
func OutsideOf[TTx any](t Transacted) (*Outside[TTx], bool) {
	if o, ok := t.(*Outside[TTx]); ok {
		return o, true
	}
	plain, ok := t.(*Outside[any])
	if !ok {
		return nil, false
	}
	o := &Outside[TTx]{Call: inTx[TTx](plain.Call)}
	if plain.Undo != nil {
		undo := inTx[TTx](*plain.Undo)
		o.Undo = &undo
	}
	return o, true
}

func inTx[TTx any](r Request[any]) Request[TTx] {
	return Request[TTx]{Read: r.Read,
		Bind: func(by call.By) call.Bound[TTx] { return call.InTx[TTx](r.Bind(by)) }}
}

// Local is the body of a Do. Undo may be nil.
type Local[TTx any] struct {
	Do   func(ctx context.Context, tx TTx, f *Facts) (output json.RawMessage, err error)
	Undo func(ctx context.Context, tx TTx, f *Facts, output json.RawMessage) error
}

// Outside is the body of a Call. Either Undo or Local undoes the call; without them it has no undo.
type Outside[TTx any] struct {
	Call  Request[TTx]
	Undo  *Request[TTx]
	Local func(ctx context.Context, tx TTx, f *Facts, output json.RawMessage) error
}

// Request is an external call without its type parameters. The context of Intend and Settle carries the
// facts: see WithFacts.
type Request[TTx any] struct {
	Bind func(by call.By) call.Bound[TTx]
	// Read decodes a stored outcome.
	Read func(outcome string) (output json.RawMessage, refused bool, reason string, err error)
}

// Command is a message to a participant and its replies.
type Command struct {
	Topic, Type string

	Draft   func(f *Facts) (skald.Draft, error)
	Done    Reply
	Refused []Reply
}

// Reply is one type of message that answers a command.
type Reply struct {
	Topic, Type string
	// Read decodes a reply: the output, or the reason of a refusal.
	Read func(ctx context.Context, m skald.Message) (output json.RawMessage, reason string, err error)
}

// Child is a saga that a step starts.
type Child struct {
	Definition *Definition
	Input      func(f *Facts) (in any, err error)
}

// NewDefinition returns d, completed so that an engine can run it. The function decode decodes an input.
func NewDefinition(d Definition, decode func(json.RawMessage) (any, error)) *Definition {
	d.decode, d.index = decode, make(map[string]int, len(d.Steps))
	for i, s := range d.Plan.Graph.Steps {
		d.index[s.Name] = i
	}
	return &d
}

// Step returns the step with a name.
func (d *Definition) Step(name string) (*StepBody, bool) {
	i, ok := d.index[name]
	if !ok {
		return nil, false
	}
	return &d.Steps[i], true
}

// CheckSize returns a permanent error if data has more bytes than the limit. The error contains both
// numbers.
func CheckSize(what string, data []byte, limit int) error {
	if len(data) > limit {
		return skald.Permanent(
			fmt.Errorf("%s is %d bytes as JSON, at most %d are allowed: store it in a table of yours, and its key in the saga, or "+
				"raise saga.Options.MaxBytes", what, len(data), limit))
	}
	return nil
}
