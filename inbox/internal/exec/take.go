package exec

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/store"
)

// collisions are how many a message may have with rivals' transactions and be taken again at its place; then
// it is an outage.
const collisions = 8

// attempt is all phases under a span.
func (x *Executor[TTx]) attempt(ctx context.Context, e *partition.Entry) Result {
	ctx, span := x.o.Telemetry.Process(ctx, &e.Message, e.Again+1)
	begun := time.Now()
	e.Overtaken, e.Begun = 0, begun
	most := collisions
	if e.Troubled() { // by the next attempt rivals are gone
		most = 0
	}
	r := x.unharmed(ctx, e)
	for n := 1; n <= most && r.What == decide.Outage && store.Collided(r.Err); n++ {
		if !backoff.Sleep(ctx, backoff.After(n, time.Millisecond, 50*time.Millisecond)) {
			break
		}
		r = x.unharmed(ctx, e)
	}
	r.Took = time.Since(begun)
	telemetry.End(span, r.What.String(), r.Err)
	return r
}

// unharmed is x.ahead, where a panic is a failure of e.
func (x *Executor[TTx]) unharmed(ctx context.Context, e *partition.Entry) (r Result) {
	defer func() {
		if v := recover(); v != nil {
			r = x.failure(ctx, e, x.db.Apply, bug(e, v))
		}
	}()
	return x.ahead(ctx, e)
}

// bug is the failure of e where code outside of the user's functions panicked with v: the message fails, and
// the process goes on.
func bug(e *partition.Entry, v any) error {
	return fmt.Errorf("handle %s: %w", e.TypeAndName(), &failure.PanicError{Value: v, Stack: debug.Stack()})
}

// take does everything for one message, once: after any answer that is handled, duplicate or rejected the
// database holds its mark; after queued, later, failed or dead it holds the message; and whatever else
// happens it may be taken again.
func (x *Executor[TTx]) take(ctx context.Context, e *partition.Entry) Result {
	if err := e.Unreadable(); err != nil {
		return x.untaken(ctx, e, err)
	}
	if e.Suspect || e.Alone {
		if r, over := x.careful(ctx, e); over {
			return r
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, x.o.Handle+x.o.Wait, failure.ErrTimeout)
	defer cancel()
	intake, unit := x.begun(ctx, e)
	var err error
	if unit == nil {
		if intake, err = x.intake(ctx, e); err != nil {
			return x.untaken(ctx, e, fmt.Errorf("step, entities and settings of %s: %w", e.Name(), err))
		}
		begun := time.Now()
		unit, err = x.db.Begin(ctx, intake)
		x.o.Telemetry.TookIn(e.Topic, time.Since(begun))
	}
	if err != nil {
		return x.takeFailed(ctx, e, fmt.Errorf("take in %s: %w", e.Name(), err))
	}
	return x.carryOut(ctx, e, unit, intake)
}

// untaken is for a message of which it cannot be told what to take in. Where it cannot be kept either, it may
// have come before: then it ends as any repeat does, or as a conflict.
func (x *Executor[TTx]) untaken(ctx context.Context, e *partition.Entry, why error) Result {
	r := x.failure(ctx, e, x.db.Apply, why)
	if r.What != decide.Full || e.Parked != nil {
		return r
	}
	m := store.Mark{Consumer: x.o.Group, Identity: e.Identity(), As: store.Done, Fingerprint: x.printed(e),
		KeyOrder: store.Arriving, Key: e.Key}
	intake := store.Intake{Marks: []store.Mark{m}, Server: e.Server, Wait: x.o.Wait, Handle: x.o.Handle}
	unit, err := x.db.Begin(ctx, intake)
	if err != nil {
		return r
	}
	switch unit.Found().Marks[0].Outcome {
	case store.Fresh, store.Behind:
		_, _ = unit.Rollback(ctx)
		return r
	}
	return x.carryOut(ctx, e, unit, intake)
}

func (x *Executor[TTx]) intake(ctx context.Context, e *partition.Entry) (intake store.Intake, err error) {
	if x.asksUser(e) {
		err = guarded[TTx](ctx, func() (err error) {
			intake, err = x.asked(ctx, e)
			return err
		})
		return intake, err
	}
	return x.asked(ctx, e)
}

// asksUser tells whether functions of the user's say what is taken in with e.
func (x *Executor[TTx]) asksUser(e *partition.Entry) bool {
	_, steps := x.steps[e.Kind()]
	return steps || x.o.Entities != nil || x.o.Settings != nil || x.of != nil
}

// asked is intake, in which functions of the user's may panic.
func (x *Executor[TTx]) asked(ctx context.Context, e *partition.Entry) (intake store.Intake, err error) {
	intake = store.Intake{
		Marks:     []store.Mark{x.mark(e)},
		Server:    e.Server,
		Wait:      x.o.Wait,
		Handle:    x.o.Handle + mercy,
		Isolation: x.o.Isolation,
	}
	if x.handlers[e.Kind()] == nil {
		return intake, nil // what this build could say of it is about other messages
	}
	if e.Step, err = x.step(ctx, e); err != nil {
		return intake, err
	}
	if e.Step != nil {
		intake.Steps = []store.Step{*e.Step}
	}
	if x.o.Entities != nil {
		intake.Locks = x.o.Entities(e.Message)
		if slices.ContainsFunc(intake.Locks,
			func(l store.Lock) bool { return l.Space == "" || l.Key == "" }) {
			return intake, errNoEntity
		}
	}
	if x.o.Settings != nil {
		intake.Settings = x.o.Settings(e.Message)
	}
	return intake, nil
}

var errNoEntity = errors.New("inbox.Options.Transaction.Entities returned an entity without Space or Key: all such messages would wait for each other; give both, or leave it out")

func (x *Executor[TTx]) mark(e *partition.Entry) store.Mark {
	m := store.Mark{Consumer: x.o.Group, Identity: e.Identity(), As: store.Done, Fingerprint: x.print(e),
		KeyOrder: store.Arriving, Key: e.Key}
	if e.Parked != nil {
		m.KeyOrder, m.Attempts, m.Held = store.Retrying, e.Parked.Attempts, true
	}
	return m
}

// reject undoes the handler's rows and stores the verdict and what is to be said in a second transaction,
// which repeats the intake: it stands only if no entity moved between the two, so that a "no" is never stored
// that is no longer true. If one did, the message is simply taken again.
func (x *Executor[TTx]) reject(ctx context.Context, e *partition.Entry, unit store.Unit[TTx],
	intake store.Intake, no *skald.RejectedError, r Reply) Result {
	r.Say = slices.Concat(no.Say, r.Say)
	verdict, err := x.leaves(ctx, e, r, intake, decide.SaysNo)
	if err != nil {
		return x.lentFailed(ctx, e, unit, fmt.Errorf("reject %s: %w", e.Name(), err))
	}
	mark := intake.Marks[0]
	if verdict.Answer != nil {
		mark = *verdict.Answer
	}
	mark.As, mark.Reason = store.Rejected, no.Err.Error()
	verdict.Mark, verdict.Answer = &mark, nil
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
