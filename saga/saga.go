// Package saga runs a process of several steps. Each step takes effect once, or is undone once.
//
// A definition is a plain value. It lists each step together with its undo:
//
//	hold   := saga.Do("hold", reserve, release)             // in your own transaction
//	charge := saga.Call("charge", gateway, bill, saga.UndoCall(refunds, refund)) // a request to another system
//	ship   := saga.Command("ship", ShipParcel, parcel, saga.Reply(Shipped), saga.Pivot())
//	orders := saga.New("order", &saga.Options[Order]{Key: orderID, Deadline: 10 * time.Minute}, hold, charge, ship)
//
// A step follows the step listed before it, unless After or AtStart places it.
//
// The saga turns back if a step is rejected or fails its last attempt, if the deadline passes, or if your
// code cancels the saga. The engine then waits for the outcome of requests in progress. It undoes the steps
// that took effect, in the reverse of the order in which they began. After the pivot is done, the saga does
// not turn back.
//
// The engine may call a function again after a crash or a failed commit. The writes in the function's
// transaction are committed once.
package saga

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/skald-go/skald/internal/saga/engine"
	"github.com/skald-go/skald/internal/saga/plan"
)

// Options has the options of a definition. Key is required.
type Options[In any] struct {
	// Key returns the business key of a saga, for example "o-1": a text of 1 to 255 bytes. A definition has
	// one saga for each key.
	Key func(In) string
	// Deadline limits the time from the start to the pivot, or to the end if there is no pivot. When it
	// passes, the saga turns back. If the pivot is done, the saga continues and the engine logs an alarm.
	// Default: no deadline.
	Deadline time.Duration
	// MaxBytes limits the size of the input, and of each output, as JSON. Default 64 KiB, at most 900 KiB.
	MaxBytes int
	// Mappings move running sagas of older definitions to this one. A definition that Compare finds
	// compatible needs no mapping.
	Mappings []Mapping
}

// Limits of sizes in bytes.
const (
	DefaultBytes = 64 << 10
	MostBytes    = 900 << 10
	MaxKey       = 255 // limit of a business key, an occurrence, and a name
	MaxSteps     = 1000
)

// Definition describes a kind of saga. It is immutable and safe for concurrent use.
type Definition[In any] struct {
	body   *engine.Definition
	faults error
}

// Defined is a Definition with any type of input.
type Defined interface {
	// Name returns the name given to New.
	Name() string
	// Hash returns a hash that is equal for definitions with equal steps, order and types.
	Hash() string
	// Faults returns all errors in the definition, joined, or nil.
	Faults() error
	// Body is for internal use by engines.
	Body() *engine.Definition
}

// StepOf is a step of a saga with the input In. Do, Exec, Call, CallWith, Command, Wait, Until, Child and
// Lock return such a step.
type StepOf[In any] interface {
	Handle
	takes(In)
}

// New returns a definition. If the definition has errors, Faults returns them, and NewEngine refuses the
// definition.
func New[In any](name string, o *Options[In], steps ...StepOf[In]) *Definition[In] {
	if o == nil {
		o = &Options[In]{}
	}
	listed := make([]Handle, len(steps))
	for i, s := range steps {
		if s != nil {
			listed[i] = s
		}
	}
	graph, bodies, faults := assemble(name, listed)
	graph.Deadline, graph.Shape = o.Deadline, shapeOf[In]()
	if o.Key == nil {
		faults = append(faults,
			errors.New("Options.Key is not given: it returns the business key of an input"))
	}
	if o.Deadline < 0 || o.Deadline > plan.MaxWait {
		faults = append(faults, fmt.Errorf("the deadline %v is not between 0 and %v", o.Deadline,
			plan.MaxWait))
	}
	most := o.MaxBytes
	if most == 0 {
		most = DefaultBytes
	}
	if most < 0 || most > MostBytes {
		faults = append(faults, fmt.Errorf("Options.MaxBytes is %d, at most %d are possible",
			o.MaxBytes, MostBytes))
	}
	graph.MaxBytes = most
	faults = append(faults, graph.Faults()...)
	known, wrong := mappings(graph, o.Mappings)
	faults = append(faults, wrong...)
	d := engine.Definition{Name: name, Hash: graph.Hash(), Mappings: known, Plan: plan.New(graph),
		MaxBytes: most, Steps: bodies, Encode: encoder(name, o.Key, most)}
	faults = append(faults, replyFaults(&d)...)
	return &Definition[In]{body: engine.NewDefinition(d, decoder[In]()), faults: joined(name, faults)}
}

// mappings converts ms, and checks them as far as possible without the older definitions.
func mappings(g plan.Graph, ms []Mapping) (out []plan.Mapping, faults []error) {
	is := plan.New(g)
	for _, m := range ms {
		names := slices.Collect(maps.Values(m.Rename))
		for _, name := range append(names, m.Skip...) {
			if _, ok := is.Step(name); !ok {
				faults = append(faults,
					fmt.Errorf("the mapping from %s names the step %q, which is not listed", m.From, name))
			}
		}
		if m.From == "" || m.From == g.Hash() {
			faults = append(faults, fmt.Errorf("the mapping from %q is not from another definition's hash",
				m.From))
		}
		out = append(out, plan.Mapping(m))
	}
	return out, faults
}

// Name returns the name given to New.
func (d *Definition[In]) Name() string { return d.body.Name }

// Hash returns a hash that is equal for definitions with equal steps, order and types.
func (d *Definition[In]) Hash() string { return d.body.Hash }

// Faults returns all errors in the definition, joined, or nil.
func (d *Definition[In]) Faults() error { return d.faults }

// Body is for internal use by engines.
func (d *Definition[In]) Body() *engine.Definition { return d.body }

func joined(name string, faults []error) error {
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("saga %q: %w", name, errors.Join(faults...))
}

// encoder returns the function that checks and encodes an input at the start, so that no step can fail
// because of it.
func encoder[In any](name string, key func(In) string, most int) func(any) (string, json.RawMessage, error) {
	return func(v any) (string, json.RawMessage, error) {
		in, ok := v.(In)
		if !ok || key == nil {
			return "", nil, fmt.Errorf("saga %s: the input is a %T, not %v", name, v, typeOf[In]())
		}
		k := key(in)
		if err := validText("key", k); err != nil {
			return "", nil, fmt.Errorf("saga %s: %w", name, err)
		}
		data, err := encode("the input", in, most)
		if err != nil {
			return "", nil, fmt.Errorf("saga %s %q: %w", name, k, err)
		}
		return k, data, nil
	}
}

func decoder[In any]() func(json.RawMessage) (any, error) {
	return func(data json.RawMessage) (any, error) {
		var in In
		err := json.Unmarshal(data, &in)
		return in, err
	}
}
