package inbox

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/store"
)

// A result is what became of one attempt at a message.
type result struct {
	entry    *entry
	what     ending
	after    time.Duration // for later and failed: not before
	attempts int           // for failed and dead: how many there were
	kept     bool          // the store has it, and it may be due
	took     time.Duration
	fell     bool   // the batch that it was in, by rivals
	print    string // for failed and dead: the fingerprint, where it is the message's first failure
	err      error
}

type ending int

const (
	handled   ending = iota // its effect is committed
	duplicate               // it was finished before; the mark says so
	rejected                // its handler said no; the verdict is committed
	conflict                // another payload came under its identity before; it is in quarantine
	tooOld                  // whether it was finished before is forgotten; it is in quarantine
	queued                  // others of its key are parked; it is parked behind them
	later                   // its handler said not yet; it is parked
	failed                  // the message's own failure; it is parked with it
	dead                    // the same, for the last time; it is a dead letter
	again                   // nothing was written; it is to be taken again at once
	barred                  // the step that it takes was to be undone before it came; the verdict is committed
	stale                   // it was claimed, and is not as it was; somebody else has it
	outage                  // nobody's fault; nothing was written, or it is not known
	full                    // it should be parked, and no more may be
	broken                  // waiting cannot cure it: the consumer stops
	left                    // of a batch: nothing was done about it, it stays at its place
	calling                 // what is to be asked of the outside is stored with it; never settled
)

var (
	// ErrNoID is the failure of a message without an id: Skald cannot know it again.
	ErrNoID = errors.New("inbox: the message has no id")
	// ErrNoEnvelope is the failure of a message whose envelope cannot be read.
	ErrNoEnvelope = errors.New("inbox: the envelope cannot be read")
)

// The words are those of the metrics.
func (e ending) String() string {
	return [...]string{"processed", "duplicate", "rejected", "conflict", "too_old", "parked", "later", "failed", "dead", "again", "barred", "stale",
		"outage", "full", "broken", "left", "calling"}[e]
}

func (e *entry) readable() bool { return e.Fault == nil && e.unknown == nil }

// unreadable is why e cannot be taken.
func (e *entry) unreadable() error {
	switch {
	case e.parked != nil && e.parked.Fault != "":
		return fmt.Errorf("%w: %s", ErrNoEnvelope, e.parked.Fault)
	case e.Fault != nil:
		return fmt.Errorf("%w: %w", ErrNoEnvelope, e.Fault)
	case e.unknown != nil && e.parked == nil:
		return fmt.Errorf("what is it: %w", e.unknown)
	}
	return nil
}

// collisions are how many a message may have with rivals' transactions and be taken again at its place; then it is an outage.
const collisions = 8

// attempt is all phases under a span.
func (in *Inbox[TTx]) attempt(ctx context.Context, e *entry) result {
	ctx, span := in.tel.Process(ctx, &e.Message, e.again+1)
	begun := time.Now()
	e.overtaken = 0
	r := in.ahead(ctx, e)
	for n := 1; n <= collisions && r.what == outage && store.Collided(r.err) && sleep(ctx, backoff.After(n, time.Millisecond, 50*time.Millisecond)); n++ {
		r = in.ahead(ctx, e)
	}
	r.took = time.Since(begun)
	telemetry.End(span, r.what.String(), r.err)
	return r
}

// take does everything for one message, once: after any answer that is handled, duplicate or rejected the
// database holds its mark; after queued, later, failed or dead it holds the message; and whatever else happens it may be
// taken again.
func (in *Inbox[TTx]) take(ctx context.Context, e *entry) result {
	if err := e.unreadable(); err != nil {
		return in.untaken(ctx, e, err)
	}
	if e.suspect || e.alone {
		if r, over := in.careful(ctx, e); over {
			return r
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, in.o.Handle+in.o.Wait, ErrTimeout)
	defer cancel()
	intake, unit := in.begun(ctx, e)
	var err error
	if unit == nil {
		if intake, err = in.intake(ctx, e); err != nil {
			return in.untaken(ctx, e, fmt.Errorf("step, entities and settings of %s: %w", e.ID, err))
		}
		unit, err = in.db.Begin(ctx, intake)
	}
	if err != nil {
		return in.failure(ctx, e, in.db.Apply, fmt.Errorf("take in %s: %w", e.ID, err))
	}
	v := unit.Found().Marks
	switch {
	case e.suspect && v[0].Outcome == store.Fresh: // it is to be parked, and there is no room
		_, _ = unit.Rollback(ctx)
		return result{entry: e, what: full, err: ErrFull}
	case v[0].Outcome == store.Fresh && in.handlers[kind{e.Topic, e.Type}] == nil:
		return in.unhandled(ctx, e, unit.Rollback)
	case v[0].Outcome == store.Fresh:
		return in.stepped(ctx, e, unit, intake)
	case e.parked != nil:
		return in.taken(ctx, e, unit, v[0], intake.Marks[0].Fingerprint)
	case v[0].Outcome == store.Behind && e.step != nil && unit.Found().Steps[0].State == store.StepTooOld:
		return in.known(ctx, e, unit, store.Verdict{Outcome: store.TooOld}, intake.Marks[0].Fingerprint)
	case v[0].Outcome == store.Behind:
		return in.queue(ctx, e, unit.Rollback)
	case v[0].Outcome == store.Waiting, v[0].Outcome == store.Dead:
		return in.keptAlready(ctx, e, unit, intake.Marks[0].Fingerprint)
	}
	return in.known(ctx, e, unit, v[0], intake.Marks[0].Fingerprint)
}

// untaken is for a message of which it cannot be told what to take in. Where it cannot be kept either, it may have come before: then it
// ends as any repeat does, or as a conflict.
func (in *Inbox[TTx]) untaken(ctx context.Context, e *entry, why error) result {
	r := in.failure(ctx, e, in.db.Apply, why)
	if r.what != full || e.parked != nil {
		return r
	}
	m := store.Mark{Consumer: in.group, Identity: e.identity(), As: store.Done, Fingerprint: in.printed(e), Turn: store.Arriving, Key: e.Key}
	unit, err := in.db.Begin(ctx, store.Intake{Marks: []store.Mark{m}, Server: e.server, Wait: in.o.Wait, Handle: in.o.Handle})
	if err != nil {
		return r
	}
	switch v := unit.Found().Marks[0]; v.Outcome {
	case store.Fresh, store.Behind:
		_, _ = unit.Rollback(ctx)
		return r
	case store.Waiting, store.Dead:
		return in.keptAlready(ctx, e, unit, m.Fingerprint)
	default:
		return in.known(ctx, e, unit, v, m.Fingerprint)
	}
}

// printed is the fingerprint of a message that Options.Fingerprint may not be made for.
func (in *Inbox[TTx]) printed(e *entry) (print int64) {
	defer func() {
		if recover() != nil {
			print = 0 // not known
		}
	}()
	return in.print(e)
}

func (in *Inbox[TTx]) intake(ctx context.Context, e *entry) (intake store.Intake, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	intake = store.Intake{
		Marks:     []store.Mark{in.mark(e)},
		Server:    e.server,
		Wait:      in.o.Wait,
		Handle:    in.o.Handle + mercy,
		Isolation: in.o.Isolation,
	}
	if in.handlers[kind{e.Topic, e.Type}] == nil {
		return intake, nil // what this build could say of it is about other messages
	}
	if e.step, err = in.step(ctx, e); err != nil {
		return intake, err
	}
	if e.step != nil {
		intake.Steps = []store.Step{*e.step}
	}
	if in.o.Entities != nil {
		intake.Locks = in.o.Entities(e.Message)
	}
	if in.o.Settings != nil {
		intake.Settings = in.o.Settings(e.Message)
	}
	return intake, nil
}

func (in *Inbox[TTx]) mark(e *entry) store.Mark {
	m := store.Mark{Consumer: in.group, Identity: e.identity(), As: store.Done, Fingerprint: in.print(e), Turn: store.Arriving, Key: e.Key}
	if e.parked != nil {
		m.Turn, m.Attempts, m.Held = store.Retrying, e.parked.Attempts, true
	}
	return m
}

// mostOvertaken is how often a message whose handler was overtaken is taken again at once.
const mostOvertaken = 16

func (in *Inbox[TTx]) handle(ctx context.Context, e *entry, unit store.Unit[TTx], intake store.Intake) result {
	known, err := in.askedBeside(ctx, e, unit.Tx())
	switch {
	case err != nil:
		return in.failure(ctx, e, unit.Rollback, err)
	case known:
		return in.knownBeside(ctx, e, unit, intake)
	}
	r, err := in.run(fenced(ctx, intake.Locks, unit.Found().Locks), e, unit.Tx())
	var no *skald.RejectedError
	var wait *skald.LaterError
	var overtaken *skald.AgainError
	var outside *intent
	switch {
	case err == nil:
		return in.finish(ctx, e, unit, intake, r)
	case errors.As(err, &overtaken) && e.overtaken < mostOvertaken && ctx.Err() == nil:
		e.overtaken++
		_, _ = unit.Rollback(ctx) // the rows are undone in any case
		return in.take(ctx, e)    // in what is left of its time
	case errors.As(err, &outside):
		return in.intend(ctx, e, unit, intake, outside.call)
	case errors.As(err, &no):
		return in.reject(ctx, e, unit, intake, no, r)
	case errors.As(err, &wait):
		return in.later(ctx, e, unit.Rollback, wait.After, err)
	}
	err, end := fmt.Errorf("handle %s %s: %w", e.Type, e.ID, err), unit.Rollback
	if errors.Is(err, ErrTimeout) {
		_, _ = unit.Rollback(ctx) // whose session the database may have ended
		end = in.db.Apply
	}
	return in.failure(ctx, e, end, err)
}

// reject undoes the handler's rows and stores the verdict and what is to be said in a second transaction, which
// repeats the intake: it stands only if no entity moved between the two, so that a "no" is never stored that is
// no longer true. If one did, the message is simply taken again.
func (in *Inbox[TTx]) reject(ctx context.Context, e *entry, unit store.Unit[TTx], intake store.Intake, no *skald.RejectedError, r Result) result {
	r.Say = slices.Concat(no.Say, r.Say)
	verdict, err := in.leaves(ctx, e, r, intake)
	if err != nil {
		return in.failure(ctx, e, unit.Rollback, fmt.Errorf("reject %s: %w", e.ID, err))
	}
	mark := intake.Marks[0]
	if verdict.Answer != nil {
		mark = *verdict.Answer
	}
	mark.As, mark.Reason = store.Rejected, no.Err.Error()
	verdict.Mark, verdict.Answer = &mark, nil
	if in.o.RejectDead {
		verdict.Keep, verdict.Free = in.rejection(e, no, r.Code), nil
		verdict.Rows = append(verdict.Rows, in.announcement(ctx, verdict.Keep)...)
	}
	switch {
	case e.takes() != nil:
		verdict.Step = refused(e.takes(), verdict.Step)
	case e.step != nil && e.outcome != "":
		verdict.Step = e.called(store.StepDone) // it was not undone
	default:
		verdict.Step = nil
	}
	verdict.Locks = slices.Clone(intake.Locks)
	for i, version := range unit.Found().Locks {
		verdict.Locks[i].Version = version
	}
	if in.beside != nil {
		return in.rejectBeside(ctx, e, unit, intake, verdict)
	}
	stands, err := unit.Rollback(ctx, verdict)
	switch {
	case err != nil:
		return in.failure(ctx, e, in.db.Apply, fmt.Errorf("reject %s: %w", e.ID, err))
	case !stands[0]:
		in.giveBack(ctx, e, in.db.Apply)
		return result{entry: e, what: again, err: fmt.Errorf("reject %s: %w", e.ID, store.ErrLost)}
	}
	return result{entry: e, what: rejected}
}
