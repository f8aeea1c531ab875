package inbox

import (
	"context"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/store"
)

// OnCall handles the event e by an outside call.
func OnCall[TTx, T, TReq, TOut any](in *Inbox[TTx], e skald.Event[T], c call.Call[TTx, T, TReq, TOut]) {
	in.handleCall(store.Kind{Topic: e.Topic, Type: e.Type}, bind(in, e, c))
}

// phases are the functions of an outside call: what is run before the call, and what after it.
type phases[TTx any] struct {
	call.Bound[TTx]
	intend ResultHandler[TTx]
	settle func(ctx context.Context, tx TTx, m skald.Message, outcome string) (Result, error)
}

func bind[TTx, T, TReq, TOut any](in *Inbox[TTx], e skald.Event[T],
	c call.Call[TTx, T, TReq, TOut]) phases[TTx] {
	by := call.By{Name: in.group, Retry: in.o.Retry.First, Now: in.o.Now, Logger: in.o.Logger}
	bound := call.Bind(c, by,
		func(ctx context.Context, m skald.Message) (skald.Received[T], error) { return decode(ctx, e, m) })
	return phases[TTx]{
		Bound: bound,
		intend: func(ctx context.Context, tx TTx, m skald.Message) (Result, error) {
			next, err := bound.Intend(ctx, tx, m)
			if err == nil && next != nil {
				err = &exec.Intent{Call: *next}
			}
			return Result{}, err
		},
		settle: func(ctx context.Context, tx TTx, m skald.Message, outcome string) (Result, error) {
			return Result{}, bound.Settle(ctx, tx, m, outcome)
		},
	}
}

func (in *Inbox[TTx]) handleCall(k store.Kind, p phases[TTx]) {
	in.HandleResult(k.Topic, k.Type, p.intend)
	in.exec.Call(k, exec.Outside[TTx]{Bound: p.Bound,
		Settle: func(ctx context.Context, tx TTx, m skald.Message, outcome string) (exec.Reply, error) {
			r, err := p.settle(ctx, tx, m, outcome)
			return exec.Reply(r), err
		}})
}

// ForwardCall is Forward for a step that is taken by a call: from its intent on the step is calling. A
// compensation that comes then waits until it is known what became of the call, has its key used up for that,
// and undoes what was done, or nothing. A call that is refused takes no effect.
func ForwardCall[TTx, T, TReq, TOut any](in *Inbox[TTx], e skald.Event[T], of func(skald.Received[T]) Step,
	c call.Call[TTx, T, TReq, TOut],
	barred func(m skald.Received[T]) []skald.Draft) {
	OnCall(in, e, c)
	in.exec.Course(store.Kind{Topic: e.Topic, Type: e.Type}, exec.Course{
		State: store.StepDone,
		Of:    stepOf(e, of),
		Say:   sayOf(e, anyhow(barred)),
	})
}

// CompensateCall is Compensate for a step that is undone by a call: a refund. From its intent on the step is
// calling, so that whoever would undo it, too, waits; it is undone with Settle. TookOf tells Intent and
// Settle what is to be undone. The key must be one of the step, not of the message: "refund-" and the order.
// A Settle that rejects leaves the step done.
func CompensateCall[TTx, T, TReq, TOut any](in *Inbox[TTx], e skald.Event[T], of func(skald.Received[T]) Step,
	c call.Call[TTx, T, TReq, TOut],
	say func(m skald.Received[T], was store.StepState) []skald.Draft) {
	k, saying, p := store.Kind{Topic: e.Topic, Type: e.Type}, sayOf(e, say), bind(in, e, c)
	said := func(ctx context.Context, m skald.Message, r Result, err error) (Result, error) {
		if err == nil {
			r.Say, err = saying(ctx, m, store.StepDone)
		}
		return r, err
	}
	with := p
	with.intend = func(ctx context.Context, tx TTx, m skald.Message) (Result, error) {
		r, err := p.intend(ctx, tx, m)
		return said(ctx, m, r, err)
	}
	with.settle = func(ctx context.Context, tx TTx, m skald.Message, outcome string) (Result, error) {
		r, err := p.settle(ctx, tx, m, outcome)
		return said(ctx, m, r, err)
	}
	in.handleCall(k, with)
	in.exec.Course(k, exec.Course{State: store.StepUndone, Of: stepOf(e, of), Say: saying})
}
