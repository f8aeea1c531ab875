package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/saga/plan"
)

// Facts describe a saga to one call of one of its functions.
type Facts struct {
	Definition *Definition
	Key        string // the business key
	Input      json.RawMessage
	State      *plan.State

	Step, Occurrence string
	Undo             bool // the call is to the undo of the step
	Attempt          int

	fault error
}

// In decodes the input. It decodes again for each call, so that a function cannot change the input of other
// functions.
func (f *Facts) In() (any, error) {
	in, err := f.Definition.decode(f.Input)
	if err != nil {
		return nil, skald.Permanent(fmt.Errorf("read the input of the saga %s %q: %w", f.Definition.Name,
			f.Key, err))
	}
	return in, nil
}

// Fail records an error that occurred when the function read the saga, such as an output of the wrong type.
// The function then fails with the first recorded error, regardless of its own result.
func (f *Facts) Fail(err error) {
	if f.fault == nil {
		f.fault = skald.Permanent(err)
	}
}

// Fault returns the recorded error. Without a recorded error it returns err.
func (f *Facts) Fault(err error) error {
	if f.fault != nil {
		return f.fault
	}
	return err
}

// CallKey returns the idempotency key for external requests of this step. All attempts have the same key; the
// undo has a different key.
func (f *Facts) CallKey() string { return f.callKey(f.Undo) }

// ForwardKey returns, for use in an undo, the CallKey of the step that it undoes.
func (f *Facts) ForwardKey() string { return f.callKey(false) }

func (f *Facts) callKey(undo bool) string {
	way := "do"
	if undo {
		way = "undo"
	}
	step := f.Step
	if r, ok := f.State.Run(f.Step, f.Occurrence); ok {
		step = r.Born()
	}
	sum := sha256.Sum256([]byte(f.State.ID + "\x00" + step + "\x00" + f.Occurrence + "\x00" + way))
	return hex.EncodeToString(sum[:16])
}

type factsKey struct{}

// WithFacts returns a context that carries facts, for a Request.
func WithFacts(ctx context.Context, f *Facts) context.Context {
	return context.WithValue(ctx, factsKey{}, f)
}

// FactsOf returns the facts that WithFacts put into ctx.
func FactsOf(ctx context.Context) (*Facts, bool) {
	f, ok := ctx.Value(factsKey{}).(*Facts)
	return f, ok
}
