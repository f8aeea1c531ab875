package exec

import (
	"context"
	"fmt"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/store"
)

// finish commits what the handler did and answered.
func (x *Executor[TTx]) finish(ctx context.Context, e *partition.Entry, unit store.Unit[TTx],
	intake store.Intake, r Reply) Result {
	leaves, err := x.leaves(ctx, e, r, intake, decide.SaysDone)
	if err != nil {
		return x.lentFailed(ctx, e, unit, fmt.Errorf("answer of %s: %w", e.Given.ID, err))
	}
	return x.commit(ctx, e, unit, leaves, decide.Handled)
}

func (x *Executor[TTx]) commit(ctx context.Context, e *partition.Entry, unit store.Unit[TTx],
	leaves store.Effect, what decide.Ending) Result {
	var err error
	if leaves.Answer == nil && leaves.Step == nil && leaves.Finish == nil && leaves.Requeue == nil &&
		len(leaves.Rows) == 0 {
		err = x.end(ctx, e, unit)
	} else {
		err = x.end(ctx, e, unit, leaves)
	}
	if err == nil {
		return Result{Entry: e, What: what}
	}
	return x.storeFailed(ctx, e, fmt.Errorf("commit %s: %w", e.Given.ID, err))
}

// leaves is what is committed beside the rows of the handler, which has answered with done or a rejection.
func (x *Executor[TTx]) leaves(ctx context.Context, e *partition.Entry, r Reply,
	intake store.Intake, says decide.Facts) (out store.Effect, err error) {
	result := ""
	if len(r.Say) > 0 || r.Value != nil { // codecs and values are the user's
		err = guarded[TTx](ctx, func() (err error) {
			if out.Rows, err = x.o.Complete.Messages(skald.WithCause(ctx, e.Message), r.Say); err == nil {
				result, err = once.Encode(ctx, x.o.Codec, r.Value)
			}
			return err
		})
		if err != nil {
			return out, err
		}
	}
	out.Step = becomes(e, x.table.Answered(says|x.stepFacts(e)).Step, r.Code, result)
	out.Finish = x.freed(e)
	mark := intake.Marks[0]
	mark.Code, mark.Result = r.Code, result
	if len(out.Rows) > 0 && x.announces(e) {
		if mark.Emitted, err = once.EncodeEmitted(out.Rows); err != nil {
			return out, err
		}
	}
	if mark.Code != 0 || mark.Result != "" || mark.Emitted != "" {
		out.Answer = &mark
	}
	return out, nil
}
