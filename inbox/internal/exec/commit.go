// This file commits the work of a handler, or its rejection.

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

// finish commits the work of the handler and its reply.
func (x *Executor[TTx]) finish(ctx context.Context, e *partition.Entry, unit store.Unit[TTx],
	intake store.Intake, r Reply) Result {
	effect, err := x.replyEffect(ctx, e, r, intake, decide.ReturnedNil)
	if err != nil {
		return x.handlerFailed(ctx, e, unit, fmt.Errorf("reply to %s: %w", partition.Shown(e.Given.ID), err))
	}
	return x.commit(ctx, e, unit, effect, decide.Handled)
}

// commit commits e with the handler's rows and the effect. If the store supports it, the same round trip
// begins the transaction of the worker's next message.
func (x *Executor[TTx]) commit(ctx context.Context, e *partition.Entry, unit store.Unit[TTx],
	effect store.Effect, what decide.Ending) Result {
	var es []store.Effect
	if effect.Answer != nil || effect.Step != nil || effect.Finish != nil || effect.Requeue != nil ||
		len(effect.Rows) > 0 {
		es = append(es, effect)
	}
	var err error
	if d := x.nextWorker(ctx, e, unit); d != nil {
		d.unit, err = unit.CommitThen(ctx, d.intake, es...)
	} else {
		err = unit.Commit(ctx, es...)
	}
	if err == nil {
		lending.Committed(ctx)
		return Result{Entry: e, What: what}
	}
	if errors.Is(err, store.ErrLent) {
		return x.fail(ctx, e, x.db.Apply, endedByHandler(e, err))
	}
	err = fmt.Errorf("commit %s: %w", partition.Shown(e.Given.ID), err)
	return x.storeFailed(ctx, e, x.handlerFault(ctx, err))
}

// encodedReply is a reply as the store keeps it.
type encodedReply struct {
	rows   []skald.Message
	result string
}

// replyEffect returns the effect of a reply. The caller commits it with the rows of the handler. The
// parameter returned is ReturnedNil or ReturnedReject.
func (x *Executor[TTx]) replyEffect(ctx context.Context, e *partition.Entry, r Reply,
	intake store.Intake, returned decide.Facts) (out store.Effect, err error) {
	result := ""
	if len(r.Publish) > 0 || r.Value != nil { // encoding runs the user's functions
		cause := skald.WithCause(ctx, e.Message)
		encoded, err := runLimited(ctx, x, []*partition.Entry{e}, func() (c encodedReply, err error) {
			if c.rows, err = x.o.Complete.Messages(cause, r.Publish); err == nil {
				c.result, err = once.Encode(ctx, x.o.Codec, r.Value)
			}
			return c, err
		})
		if err != nil {
			return out, err
		}
		out.Rows, result = encoded.rows, encoded.result
	}
	out.Step = stepChange(e, x.table.AfterHandler(returned|x.stepFacts(e)).Step, r.Code, result)
	out.Finish = x.finishParked(e)
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

// reject rolls back the rows of the handler. A second transaction repeats the intake and stores the rejection
// with its events. It commits only if no entity changed between the two transactions, because the handler
// might not reject after a change. After a change the handler runs again.
func (x *Executor[TTx]) reject(ctx context.Context, e *partition.Entry, unit store.Unit[TTx],
	intake store.Intake, rejected *skald.RejectedError, r Reply) Result {
	verdict, err := x.rejectionEffect(ctx, e, intake, rejected, r)
	if err != nil {
		return x.handlerFailed(ctx, e, unit, fmt.Errorf("reject %s: %w", e.Name(), err))
	}
	if x.o.Rejections {
		verdict.Park, verdict.Finish = x.rejectedPark(e, rejected, r.Code), nil
		verdict.Rows = append(verdict.Rows, x.o.Announce.Rows(ctx, &verdict.Park.Parked)...)
	}
	verdict.Locks = slices.Clone(intake.Locks)
	for i, version := range unit.Found().Locks {
		verdict.Locks[i].Version = version
	}
	if x.legacyDedup != nil {
		return x.rejectAfterDedup(ctx, e, unit, intake, verdict)
	}
	applied, err := unit.Rollback(ctx, verdict)
	switch {
	case err != nil:
		return x.storeFailed(ctx, e, fmt.Errorf("reject %s: %w", e.Name(), err))
	case !applied[0]:
		x.releaseClaim(ctx, e, x.db.Apply)
		return Result{Entry: e, What: decide.Again, Err: fmt.Errorf("reject %s: %w", e.Name(), store.ErrLost)}
	}
	return Result{Entry: e, What: decide.Rejected}
}

// rejectionEffect returns the effect of a rejection: its mark and its events.
func (x *Executor[TTx]) rejectionEffect(ctx context.Context, e *partition.Entry, intake store.Intake,
	rejected *skald.RejectedError, r Reply) (store.Effect, error) {
	r.Publish = slices.Concat(rejected.Publish, r.Publish)
	out, err := x.replyEffect(ctx, e, r, intake, decide.ReturnedReject)
	mark := intake.Marks[0]
	if out.Answer != nil {
		mark = *out.Answer
	}
	mark.Outcome, mark.Reason = store.Rejected, rejected.Err.Error()
	out.Mark, out.Answer = &mark, nil
	return out, err
}
