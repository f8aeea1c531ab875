package exec

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/lending"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/store"
)

// finish commits what the handler did and answered.
func (x *Executor[TTx]) finish(ctx context.Context, e *partition.Entry, unit store.Unit[TTx],
	intake store.Intake, r Reply) Result {
	leaves, err := x.leaves(ctx, e, r, intake, decide.ReturnedNil)
	if err != nil {
		return x.lentFailed(ctx, e, unit, fmt.Errorf("answer of %s: %w", partition.Shown(e.Given.ID), err))
	}
	return x.commit(ctx, e, unit, leaves, decide.Handled)
}

// commit commits e with its effects beside the handler's rows. In the same round trip it begins the next
// message, where the worker has one and the store can.
func (x *Executor[TTx]) commit(ctx context.Context, e *partition.Entry, unit store.Unit[TTx],
	leaves store.Effect, what decide.Ending) Result {
	var es []store.Effect
	if leaves.Answer != nil || leaves.Step != nil || leaves.Finish != nil || leaves.Requeue != nil ||
		len(leaves.Rows) > 0 {
		es = append(es, leaves)
	}
	var err error
	if d := x.next(ctx, e, unit); d != nil {
		d.unit, err = unit.CommitThen(ctx, d.intake, es...)
	} else {
		err = unit.Commit(ctx, es...)
	}
	if err == nil {
		lending.Committed(ctx)
		return Result{Entry: e, What: what}
	}
	if errors.Is(err, store.ErrLent) {
		return x.failure(ctx, e, x.db.Apply, endedBy(e, err))
	}
	return x.storeFailed(ctx, e, x.lent(ctx, fmt.Errorf("commit %s: %w", partition.Shown(e.Given.ID), err)))
}

// leaves is what is committed beside the rows of the handler, which has answered with done or a rejection.
func (x *Executor[TTx]) leaves(ctx context.Context, e *partition.Entry, r Reply,
	intake store.Intake, says decide.Facts) (out store.Effect, err error) {
	result := ""
	if len(r.Publish) > 0 || r.Value != nil { // codecs and values are the user's
		err = x.watched(ctx, e, func() (err error) {
			if out.Rows, err = x.o.Complete.Messages(skald.WithCause(ctx, e.Message), r.Publish); err == nil {
				result, err = once.Encode(ctx, x.o.Codec, r.Value)
			}
			return err
		})
		if err != nil {
			return out, err
		}
	}
	out.Step = becomes(e, x.table.AfterHandler(says|x.stepFacts(e)).Step, r.Code, result)
	out.Finish = x.freed(e)
	mark := intake.Marks[0]
	mark.Code, mark.Result = r.Code, result
	announces := false
	if len(out.Rows) > 0 {
		announces, _ = x.Announces(e)
	}
	if announces {
		if mark.Emitted, err = once.EncodeEmitted(out.Rows); err != nil {
			return out, err
		}
	}
	if mark.Code != 0 || mark.Result != "" || mark.Emitted != "" {
		out.Answer = &mark
	}
	return out, nil
}

// reject rolls the handler's rows back. A second transaction repeats the intake and stores the rejection and
// its events. It commits only if no entity changed between the two, because the rejection may be wrong then.
// After a change the handler runs again.
func (x *Executor[TTx]) reject(ctx context.Context, e *partition.Entry, unit store.Unit[TTx],
	intake store.Intake, no *skald.RejectedError, r Reply) Result {
	verdict, err := x.verdict(ctx, e, intake, no, r)
	if err != nil {
		return x.lentFailed(ctx, e, unit, fmt.Errorf("reject %s: %w", e.Name(), err))
	}
	if x.o.Rejections {
		verdict.Park, verdict.Finish = x.rejection(e, no, r.Code), nil
		verdict.Rows = append(verdict.Rows, x.o.Announce.Rows(ctx, &verdict.Park.Parked)...)
	}
	verdict.Locks = slices.Clone(intake.Locks)
	for i, version := range unit.Found().Locks {
		verdict.Locks[i].Version = version
	}
	if x.beside != nil {
		return x.rejectBeside(ctx, e, unit, intake, verdict)
	}
	stands, err := unit.Rollback(ctx, verdict)
	switch {
	case err != nil:
		return x.storeFailed(ctx, e, fmt.Errorf("reject %s: %w", e.Name(), err))
	case !stands[0]:
		x.giveBack(ctx, e, x.db.Apply)
		return Result{Entry: e, What: decide.Again, Err: fmt.Errorf("reject %s: %w", e.Name(), store.ErrLost)}
	}
	return Result{Entry: e, What: decide.Rejected}
}

// verdict is what is stored for a rejection: its mark and its events.
func (x *Executor[TTx]) verdict(ctx context.Context, e *partition.Entry, intake store.Intake,
	no *skald.RejectedError, r Reply) (store.Effect, error) {
	r.Publish = slices.Concat(no.Publish, r.Publish)
	out, err := x.leaves(ctx, e, r, intake, decide.ReturnedReject)
	mark := intake.Marks[0]
	if out.Answer != nil {
		mark = *out.Answer
	}
	mark.Outcome, mark.Reason = store.Rejected, no.Err.Error()
	out.Mark, out.Answer = &mark, nil
	return out, err
}
