// This file registers handlers that make an outside call.

package inbox

import (
	"context"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/store"
)

// OnCall registers the outside call c as the handler of the event e.
func OnCall[TTx, T, TReq, TOut any](in *Inbox[TTx], e skald.Event[T], c call.Call[TTx, T, TReq, TOut]) {
	in.handleCall(store.Kind{Topic: e.Topic, Type: e.Type}, bind(in, e, c))
}

// phases has the functions that run before (intend) and after (settle) an outside call, each in a
// transaction.
type phases[TTx any] struct {
	call.Bound[TTx]
	intend ResultHandler[TTx]
	settle func(ctx context.Context, tx TTx, m skald.Message, outcome string) (Result, error)
}

func bind[TTx, T, TReq, TOut any](in *Inbox[TTx], e skald.Event[T],
	c call.Call[TTx, T, TReq, TOut]) phases[TTx] {
	by := call.By{Name: in.group, Retry: in.o.Retry.InitialInterval, Now: in.o.Now, Logger: in.o.Logger}
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
	in.exec.SetCall(k, exec.OutsideCall[TTx]{Bound: p.Bound,
		Settle: func(ctx context.Context, tx TTx, m skald.Message, outcome string) (exec.Reply, error) {
			r, err := p.settle(ctx, tx, m, outcome)
			return exec.Reply(r), err
		}})
}

// DoCallOn registers an outside call that does the step s. The step is in the state calling from the commit
// of the intent until the call is settled. An undo that comes in this time voids the key of the call and
// waits for the outcome of the call. Then it undoes the work, if the call did any. A refused call has no
// effect.
func DoCallOn[TTx, T, TReq, TOut any](s *Step[TTx, T], e skald.Event[T], c call.Call[TTx, T, TReq, TOut],
	opts ...DoOption[T]) {
	OnCall(s.in, e, c)
	s.registerDo(e, opts)
}

// UndoCallOn registers an outside call that undoes the step s, for example a refund. After the commit of the
// intent the step is in the state calling, so another undo waits. Settle makes the step undone; if Settle
// rejects, the step stays done. Intent and Settle can call DoneStepOf. Derive the key of the call from the
// step, not from the message: "refund-" and the id of the order.
func UndoCallOn[TTx, T, TReq, TOut any](s *Step[TTx, T], e skald.Event[T], c call.Call[TTx, T, TReq, TOut],
	opts ...UndoOption[T]) {
	k, drafts, p := store.Kind{Topic: e.Topic, Type: e.Type}, draftsOf(e, replyOf(opts)), bind(s.in, e, c)
	withReply := func(ctx context.Context, m skald.Message, r Result, err error) (Result, error) {
		if err == nil {
			r.Publish, err = drafts(ctx, m, store.StepDone)
		}
		return r, err
	}
	with := p
	with.intend = func(ctx context.Context, tx TTx, m skald.Message) (Result, error) {
		r, err := p.intend(ctx, tx, m)
		return withReply(ctx, m, r, err)
	}
	with.settle = func(ctx context.Context, tx TTx, m skald.Message, outcome string) (Result, error) {
		r, err := p.settle(ctx, tx, m, outcome)
		return withReply(ctx, m, r, err)
	}
	s.in.handleCall(k, with)
	s.in.exec.SetStepRole(k, exec.StepRole{State: store.StepUndone, Of: stepOf(e, s.of), Publish: drafts})
}
