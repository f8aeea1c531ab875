package inbox

import (
	"context"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/store"
)

// OnCall handles the event e by an outside call.
func OnCall[TTx, T, TReq, TOut any](in *Inbox[TTx], e skald.Event[T], c call.Call[TTx, T, TReq, TOut]) {
	by := call.By{Name: in.group, Retry: in.o.Retry.First, Now: in.o.Now, Logger: in.o.Logger}
	bound := call.Bind(c, by, func(ctx context.Context, m skald.Message) (skald.Received[T], error) { return decode(ctx, e, m) })
	in.HandleResult(e.Topic, e.Type, func(ctx context.Context, tx TTx, m skald.Message) (Result, error) {
		next, err := bound.Intend(ctx, tx, m)
		if err == nil && next != nil {
			err = &intent{*next}
		}
		return Result{}, err
	})
	in.calls[store.Kind{Topic: e.Topic, Type: e.Type}] = outside[TTx]{Bound: bound,
		settle: func(ctx context.Context, tx TTx, m skald.Message, outcome string) (Result, error) {
			return Result{}, bound.Settle(ctx, tx, m, outcome)
		},
	}
}

// ForwardCall is Forward for a step that is taken by a call: from its intent on the step is calling. A
// compensation that comes then waits until it is known what became of the call, has its key used up for that,
// and undoes what was done, or nothing. A call that is refused takes no effect.
func ForwardCall[TTx, T, TReq, TOut any](in *Inbox[TTx], e skald.Event[T], of func(skald.Received[T]) Step, c call.Call[TTx, T, TReq, TOut],
	barred func(m skald.Received[T]) []skald.Draft) {
	OnCall(in, e, c)
	in.steps[store.Kind{Topic: e.Topic, Type: e.Type}] = course{
		state: store.StepDone,
		of:    stepOf(e, of),
		say:   sayOf(e, anyhow(barred)),
	}
}

// CompensateCall is Compensate for a step that is undone by a call: a refund. From its intent on the step is
// calling, so that whoever would undo it, too, waits; it is undone with Settle. TookOf tells Intent and
// Settle what is to be undone. The key must be one of the step, not of the message: "refund-" and the order.
// A Settle that rejects leaves the step done.
func CompensateCall[TTx, T, TReq, TOut any](in *Inbox[TTx], e skald.Event[T], of func(skald.Received[T]) Step, c call.Call[TTx, T, TReq, TOut],
	say func(m skald.Received[T], was store.StepState) []skald.Draft) {
	OnCall(in, e, c)
	k, saying := store.Kind{Topic: e.Topic, Type: e.Type}, sayOf(e, say)
	said := func(ctx context.Context, m skald.Message, r Result, err error) (Result, error) {
		if err == nil {
			r.Say, err = saying(ctx, m, store.StepDone)
		}
		return r, err
	}
	intend, made := in.handlers[k], in.calls[k]
	settle := made.settle
	in.handlers[k] = func(ctx context.Context, tx TTx, m skald.Message) (Result, error) {
		r, err := intend(ctx, tx, m)
		return said(ctx, m, r, err)
	}
	made.settle = func(ctx context.Context, tx TTx, m skald.Message, outcome string) (Result, error) {
		r, err := settle(ctx, tx, m, outcome)
		return said(ctx, m, r, err)
	}
	in.calls[k] = made
	in.steps[k] = course{state: store.StepUndone, of: stepOf(e, of), say: saying}
}
