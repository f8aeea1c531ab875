package saga

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/skald-go/skald/internal/saga/engine"
	"github.com/skald-go/skald/internal/saga/plan"
)

func newStep[In, Out any](name string, kind plan.Kind, b engine.StepBody, undo bool,
	opts []Option) *Step[In, Out] {
	s := &spec{name: name, kind: kind, in: typeOf[In](), out: typeOf[Out](), shape: shapeOf[Out](),
		reads: readsOf[Out](), undo: undo, body: b}
	s.body.Check = func(output json.RawMessage) error {
		var out Out
		return json.Unmarshal(output, &out)
	}
	for _, o := range opts {
		o(s)
	}
	step := &Step[In, Out]{s}
	s.body.Handle = Handle(step)
	return step
}

// Do returns a step that writes to your own database. The writes of the function do in tx commit together
// with the saga's next state. The function undo receives the output of do, and runs only if do was
// committed. The argument undo may be nil: see NoEffect. The output is stored as JSON.
//
// If do returns an error of skald.Reject, the saga turns back, and the engine publishes the events of that
// error. An error of skald.Permanent is not retried. An attempt that returns skald.RetryAfter does not
// count. All other errors are retried by the policy of Retry.
func Do[TTx, In, Out any](name string, do func(ctx context.Context, tx TTx, r Run[In]) (Out, error),
	undo func(ctx context.Context, tx TTx, r Run[In], out Out) error, opts ...Option) *Step[In, Out] {
	local := &engine.Local[TTx]{Do: func(ctx context.Context, tx TTx, f *engine.Facts) (json.RawMessage,
		error) {
		r, err := runOf[In](f)
		if err != nil {
			return nil, err
		}
		out, err := do(ctx, tx, r)
		if err = f.Fault(err); err != nil {
			return nil, err
		}
		return encodeOutput(f, out)
	}}
	if undo != nil {
		local.Undo = undoing(undo)
	}
	s := newStep[In, Out](name, plan.Do, engine.StepBody{Tx: local}, undo != nil, opts)
	if do == nil {
		s.spec.fault("it has no function")
	}
	return s
}

// Exec is like Do, for functions without an output.
func Exec[TTx, In any](name string, do func(ctx context.Context, tx TTx, r Run[In]) error,
	undo func(ctx context.Context, tx TTx, r Run[In]) error, opts ...Option) *Step[In, struct{}] {
	var some func(context.Context, TTx, Run[In]) (struct{}, error)
	if do != nil {
		some = func(ctx context.Context, tx TTx, r Run[In]) (none struct{}, err error) {
			return none, do(ctx, tx, r)
		}
	}
	if undo == nil {
		return Do[TTx, In, struct{}](name, some, nil, opts...)
	}
	return Do(name, some, func(ctx context.Context, tx TTx, r Run[In], _ struct{}) error {
		return undo(ctx, tx, r)
	}, opts...)
}

// undoing returns undo without its type parameters.
func undoing[TTx, In, Out any](undo func(context.Context, TTx, Run[In], Out) error) func(context.Context, TTx,
	*engine.Facts, json.RawMessage) error {
	return func(ctx context.Context, tx TTx, f *engine.Facts, output json.RawMessage) error {
		r, err := runOf[In](f)
		if err != nil {
			return err
		}
		out, err := decodeOutput[Out](f, output)
		if err != nil {
			return err
		}
		return f.Fault(undo(ctx, tx, r, out))
	}
}

// Until returns a step that ends at a time, by the database's clock. The engine calls the function end
// once, when the step begins. A time in the past ends the step immediately. A time more than ten years
// ahead is an error.
func Until[In any](name string, end func(r Run[In]) time.Time, opts ...Option) *Step[In, struct{}] {
	s := newStep[In, struct{}](name, plan.Wait, engine.StepBody{Until: func(f *engine.Facts) (time.Time,
		error) {
		r, err := runOf[In](f)
		if err != nil {
			return time.Time{}, err
		}
		t := end(r)
		if t.IsZero() {
			err = fmt.Errorf("the time of the step %s is zero", name)
		}
		return t, f.Fault(err)
	}}, false, append([]Option{NoEffect()}, opts...))
	if end == nil {
		s.spec.fault("it has no function")
	}
	return s
}

// Signal declares a signal. The saga that waits for it and its senders share the declaration.
type Signal[T any] struct {
	Name string

	occurrence string
}

// Wait returns a step that ends when the saga receives the signal: for example, a person approved or a
// webhook was called. A signal that arrives before the step begins is stored for the step. After Timeout the
// step fails, or is skipped if the step has SkipOnTimeout.
func Wait[In, T any](name string, signal Signal[T], opts ...Option) *Step[In, T] {
	s := newStep[In, T](name, plan.Wait, engine.StepBody{}, false, append([]Option{NoEffect()}, opts...))
	if s.spec.signal = signal.Name; signal.Name == "" {
		s.spec.fault("its signal has no name")
	}
	return s
}

// ChildOutput is the output of a Child.
type ChildOutput struct {
	ID  string // id of the child
	Key string // business key of the child
}

// Child returns a step that runs another saga. The step is done when the child is done. It is rejected if the
// child turned back. To undo the step, the engine undoes the child's steps in reverse order. A child that is
// done and has a pivot cannot be undone.
func Child[In, CIn any](name string, d *Definition[CIn], input func(r Run[In]) CIn,
	opts ...Option) *Step[In, ChildOutput] {
	b, undo := engine.StepBody{}, false
	if d != nil {
		undo = !d.body.Plan.HasPivot()
		b.Child = &engine.Child{Definition: d.body, Input: func(f *engine.Facts) (any, error) {
			r, err := runOf[In](f)
			if err != nil {
				return nil, err
			}
			in := input(r)
			return in, f.Fault(nil)
		}}
	}
	s := newStep[In, ChildOutput](name, plan.Child, b, undo, opts)
	if d != nil {
		s.spec.child, s.spec.locks = d.body.Name, d.body.Plan.Locks()
	}
	switch {
	case d == nil || input == nil:
		s.spec.fault("it has no definition, or no function that makes its input")
	case d.faults != nil:
		s.spec.fault("its child has faults: %w", d.faults)
	}
	return s
}
