package inbox

import (
	"context"
	"fmt"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/store"
)

// quarantine puts a message where somebody decides. It is written there before the message is acknowledged,
// and a repeat changes nothing in it.
func (in *Inbox[TTx]) quarantine(ctx context.Context, e *partition.Entry, unit store.Unit[TTx], d decide.Decision, print int64) result {
	stands, err := unit.Rollback(ctx, store.Effect{Quarantine: apartOf(in.group, e, d.Mark, print), Finish: in.freed(e)})
	switch {
	case err != nil:
		return in.storeFailed(ctx, e, fmt.Errorf("put %s into quarantine: %w", e.Given.ID, err))
	case !stands[0]:
		return result{entry: e, what: decide.Stale} // it was claimed, and somebody else has it
	}
	in.tellApart(ctx, e, d.Mark)
	return result{entry: e, what: d.Ending}
}

// tellApart says that a message was put into quarantine: the first, and then now and then one, with how many
// came meanwhile.
func (in *Inbox[TTx]) tellApart(ctx context.Context, e *partition.Entry, why store.Outcome) {
	in.mu.Lock()
	in.untold++
	n, due := in.untold, in.sayApart.Due(in.o.Now())
	if due {
		in.untold = 0
	}
	in.mu.Unlock()
	if !due {
		return
	}
	in.o.Logger.WarnContext(ctx, "inbox: message put into quarantine; see: skald inbox status", "consumer", in.group, "why", why.String(),
		"topic", e.Topic, "partition", e.Partition, "position", e.Position, "source", e.Given.Source, "id", e.Given.ID, "type", e.Type, "since_last_told", n)
}

// again tells whether a repeat is to send again what was said.
func (in *Inbox[TTx]) again(e *partition.Entry, v store.Verdict) bool {
	return v.Emitted != "" && in.o.Identity.Again != nil && in.o.Identity.Again(e.Message)
}

// harmless tells of a message that was finished before whether nothing more is to be done about it.
func (in *Inbox[TTx]) harmless(e *partition.Entry, v store.Verdict) (yes bool) {
	defer func() {
		if recover() != nil {
			yes = false // the attempt at it will say so
		}
	}()
	return once.Judge(v, in.print(e)) != store.Conflict && !in.again(e, v)
}

// repeat is done with that it was done before; what was said then is sent again where that is asked for.
func (in *Inbox[TTx]) repeat(ctx context.Context, e *partition.Entry, unit store.Unit[TTx], v store.Verdict) result {
	if !in.again(e, v) {
		_, _ = unit.Rollback(ctx) // nothing was written: a lost connection changes nothing
		return result{entry: e, what: decide.Duplicate}
	}
	rows, err := once.DecodeEmitted(v.Emitted)
	if err == nil {
		_, err = unit.Rollback(ctx, store.Effect{Rows: rows})
	}
	if err != nil {
		return in.storeFailed(ctx, e, fmt.Errorf("say again what %s said: %w", e.Given.ID, err))
	}
	return result{entry: e, what: decide.Duplicate}
}

// finish commits what the handler did and answered.
func (in *Inbox[TTx]) finish(ctx context.Context, e *partition.Entry, unit store.Unit[TTx], intake store.Intake, r Result) result {
	leaves, err := in.leaves(ctx, e, r, intake, decide.SaysDone)
	if err != nil {
		return in.lentFailed(ctx, e, unit, fmt.Errorf("answer of %s: %w", e.Given.ID, err))
	}
	return in.commit(ctx, e, unit, leaves, decide.Handled)
}

func (in *Inbox[TTx]) commit(ctx context.Context, e *partition.Entry, unit store.Unit[TTx], leaves store.Effect, what decide.Ending) result {
	var err error
	if leaves.Answer == nil && leaves.Step == nil && leaves.Finish == nil && leaves.Requeue == nil && len(leaves.Rows) == 0 {
		err = in.end(ctx, e, unit)
	} else {
		err = in.end(ctx, e, unit, leaves)
	}
	if err == nil {
		return result{entry: e, what: what}
	}
	return in.storeFailed(ctx, e, fmt.Errorf("commit %s: %w", e.Given.ID, err))
}

// leaves is what a result leaves behind besides the handler's rows, where the handler says done or no.
func (in *Inbox[TTx]) leaves(ctx context.Context, e *partition.Entry, r Result, intake store.Intake, says decide.Facts) (out store.Effect, err error) {
	if len(r.Say) > 0 {
		if out.Rows, err = in.with.Messages(skald.WithCause(ctx, e.Message), r.Say); err != nil {
			return out, err
		}
	}
	result, err := once.Encode(ctx, in.o.Codec, r.Value)
	if err != nil {
		return out, err
	}
	out.Step = becomes(e, in.table.Answered(says|in.stepFacts(e)).Step, r.Code, result)
	out.Finish = in.freed(e)
	mark := intake.Marks[0]
	mark.Code, mark.Result = r.Code, result
	if len(out.Rows) > 0 && in.o.Identity.Again != nil && in.o.Identity.Again(e.Message) {
		if mark.Emitted, err = once.EncodeEmitted(out.Rows); err != nil {
			return out, err
		}
	}
	if mark.Code != 0 || mark.Result != "" || mark.Emitted != "" {
		out.Answer = &mark
	}
	return out, nil
}
