// Package saga runs a process of several steps, each of which is done once or undone once.
//
// A definition is a plain value. Each step stands with its undo:
//
//	hold   := saga.Do("hold", reserve, release)             // in your own transaction
//	charge := saga.Call("charge", gateway, bill, saga.UndoCall(refunds, refund)) // a request to the outside
//	ship   := saga.Command("ship", ShipParcel, parcel, saga.Reply(Shipped), saga.Pivot())
//	orders := saga.New("order", &saga.Options[Order]{Key: orderID, Deadline: 10 * time.Minute}, hold, charge, ship)
//
// A step follows the one that is listed before it, but for After and AtStart. If a step is rejected, or its
// retries are used up, or the deadline passes, or somebody cancels, the saga turns back: what is under way
// outside is settled first, then all that was done is undone, in the reverse of the order in which the steps
// began. Once the pivot is done it does not turn back any more.
//
// Functions may be called again after a crash or a failed commit. What they write in the transaction that
// they are lent stands once.
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

// Options of a definition. Key is needed.
type Options[In any] struct {
	// Key is the business key of a saga: "o-1". There is one saga of a definition for each key. At most 255
	// bytes.
	Key func(In) string
	// Deadline is how long a saga may take from its start to its pivot, or to its end where it has none. Then
	// it turns back. After the pivot a deadline only alarms. Default: none.
	Deadline time.Duration
	// MaxBytes bounds the input, and each output, as JSON. Default 64 KiB, at most 900 KiB.
	MaxBytes int
	// Mappings take running sagas of older definitions to this one. Those of older definitions that Compare
	// finds compatible go on without.
	Mappings []Mapping
}

// Limits of sizes in bytes.
const (
	DefaultBytes = 64 << 10
	MostBytes    = 900 << 10
	MaxKey       = 255 // of a business key, an occurrence, and a name
	MaxSteps     = 1000
)

// Definition is a saga as data. It is safe for concurrent use and never changes.
type Definition[In any] struct {
	body   *engine.Definition
	faults error
}

// Defined is a Definition of any input.
type Defined interface {
	// Name is the one given to New.
	Name() string
	// Hash is the same for definitions with the same steps, order and types.
	Hash() string
	// Faults are all that is wrong with the definition, joined. Nil: it can run.
	Faults() error
	// Body is for engines.
	Body() *engine.Definition
}

// Listed is a step that a saga with the input In may have: what Do, Call, Command, Wait, Until, Child and
// Lock return.
type Listed[In any] interface {
	Handle
	takes(In)
}

// New defines a saga. What is wrong with it, Faults tells, and engines refuse it.
func New[In any](name string, o *Options[In], steps ...Listed[In]) *Definition[In] {
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
			errors.New("Options.Key is not given: say what the business key of an input is"))
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
		faults = append(faults, fmt.Errorf("Options.MaxBytes is %d, and at most %d are possible",
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

// mappings checks what can be known without the older definitions.
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

// Name is the one given to New.
func (d *Definition[In]) Name() string { return d.body.Name }

// Hash is the same for definitions with the same steps, order and types.
func (d *Definition[In]) Hash() string { return d.body.Hash }

// Faults are all that is wrong with the definition, joined. Nil: it can run.
func (d *Definition[In]) Faults() error { return d.faults }

// Body is for engines.
func (d *Definition[In]) Body() *engine.Definition { return d.body }

func joined(name string, faults []error) error {
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("saga %q: %w", name, errors.Join(faults...))
}

// encoder checks an input when it is written, and not when some step is stuck with it.
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
