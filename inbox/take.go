package inbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/store"
)

// A result is what became of one attempt at a message.
type result struct {
	entry    *partition.Entry
	what     decide.Ending
	after    time.Duration // for later and failed: not before
	attempts int           // for failed and dead: how many there were
	kept     bool          // the store has it, and it may be due
	took     time.Duration
	fell     bool          // the batch that it was in, by rivals
	print    string        // for failed and dead: the fingerprint, where it is the message's first failure
	class    failure.Class // of that
	err      error
}

var (
	// ErrNoID is the failure of a message without an id: Skald cannot know it again.
	ErrNoID = errors.New("inbox: the message has no id")
	// ErrNoEnvelope is the failure of a message whose envelope cannot be read.
	ErrNoEnvelope = errors.New("inbox: the envelope cannot be read")
	// ErrTooLarge is the failure of a dead letter of the kind too_large that is redriven.
	ErrTooLarge = errors.New("inbox: it was too large, and not all of it is kept: have it sent again in parts, or after Options.Limits.Record was raised, and drop this letter")
)

// unreadable is why e cannot be taken.
func unreadable(e *partition.Entry) error {
	switch {
	case e.Parked != nil && strings.HasPrefix(e.Parked.Fault, faultTooLarge):
		return fmt.Errorf("%w: %s", ErrTooLarge, strings.TrimPrefix(e.Parked.Fault, faultTooLarge))
	case e.Parked != nil && e.Parked.Fault != "":
		return fmt.Errorf("%w: %s", ErrNoEnvelope, e.Parked.Fault)
	case e.TooLarge():
		return e.Fault
	case e.Fault != nil:
		return fmt.Errorf("%w: %w", ErrNoEnvelope, e.Fault)
	case e.Unknown != nil && e.Parked == nil:
		return fmt.Errorf("what is it: %w", e.Unknown)
	}
	return nil
}

// collisions are how many a message may have with rivals' transactions and be taken again at its place; then
// it is an outage.
const collisions = 8

// attempt is all phases under a span.
func (in *Inbox[TTx]) attempt(ctx context.Context, e *partition.Entry) result {
	ctx, span := in.tel.Process(ctx, &e.Message, e.Again+1)
	begun := time.Now()
	e.Overtaken = 0
	r := in.ahead(ctx, e)
	for n := 1; n <= collisions && r.what == decide.Outage && store.Collided(r.err) && sleep(ctx, backoff.After(n, time.Millisecond, 50*time.Millisecond)); n++ {
		r = in.ahead(ctx, e)
	}
	r.took = time.Since(begun)
	telemetry.End(span, r.what.String(), r.err)
	return r
}

// take does everything for one message, once: after any answer that is handled, duplicate or rejected the
// database holds its mark; after queued, later, failed or dead it holds the message; and whatever else
// happens it may be taken again.
func (in *Inbox[TTx]) take(ctx context.Context, e *partition.Entry) result {
	if err := unreadable(e); err != nil {
		return in.untaken(ctx, e, err)
	}
	if e.Suspect || e.Alone {
		if r, over := in.careful(ctx, e); over {
			return r
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, in.o.Timeouts.Handle+in.o.Timeouts.Wait, failure.ErrTimeout)
	defer cancel()
	intake, unit := in.begun(ctx, e)
	var err error
	if unit == nil {
		if intake, err = in.intake(ctx, e); err != nil {
			return in.untaken(ctx, e, fmt.Errorf("step, entities and settings of %s: %w", e.ID, err))
		}
		begun := time.Now()
		unit, err = in.db.Begin(ctx, intake)
		in.tel.TookIn(e.Topic, time.Since(begun))
	}
	if err != nil {
		return in.storeFailed(ctx, e, fmt.Errorf("take in %s: %w", e.ID, err))
	}
	return in.carryOut(ctx, e, unit, intake)
}

// untaken is for a message of which it cannot be told what to take in. Where it cannot be kept either, it may
// have come before: then it ends as any repeat does, or as a conflict.
func (in *Inbox[TTx]) untaken(ctx context.Context, e *partition.Entry, why error) result {
	r := in.failure(ctx, e, in.db.Apply, why)
	if r.what != decide.Full || e.Parked != nil {
		return r
	}
	m := store.Mark{Consumer: in.group, Identity: e.Identity(), As: store.Done, Fingerprint: in.printed(e), KeyOrder: store.Arriving, Key: e.Key}
	intake := store.Intake{Marks: []store.Mark{m}, Server: e.Server, Wait: in.o.Timeouts.Wait,
		Handle: in.o.Timeouts.Handle}
	unit, err := in.db.Begin(ctx, intake)
	if err != nil {
		return r
	}
	switch unit.Found().Marks[0].Outcome {
	case store.Fresh, store.Behind:
		_, _ = unit.Rollback(ctx)
		return r
	}
	return in.carryOut(ctx, e, unit, intake)
}

// printed is the fingerprint of a message that Options.Identity.Fingerprint may not be made for.
func (in *Inbox[TTx]) printed(e *partition.Entry) (print int64) {
	defer func() {
		if recover() != nil {
			print = 0 // not known
		}
	}()
	return in.print(e)
}

func (in *Inbox[TTx]) intake(ctx context.Context, e *partition.Entry) (intake store.Intake, err error) {
	defer failure.Recover(&err)
	intake = store.Intake{
		Marks:     []store.Mark{in.mark(e)},
		Server:    e.Server,
		Wait:      in.o.Timeouts.Wait,
		Handle:    in.o.Timeouts.Handle + mercy,
		Isolation: in.o.Transaction.Isolation,
	}
	if in.handlers[e.Kind()] == nil {
		return intake, nil // what this build could say of it is about other messages
	}
	if e.Step, err = in.step(ctx, e); err != nil {
		return intake, err
	}
	if e.Step != nil {
		intake.Steps = []store.Step{*e.Step}
	}
	if in.o.Transaction.Entities != nil {
		intake.Locks = in.o.Transaction.Entities(e.Message)
		if slices.ContainsFunc(intake.Locks, func(l store.Lock) bool { return l.Space == "" || l.Key == "" }) {
			return intake, errNoEntity
		}
	}
	if in.o.Transaction.Settings != nil {
		intake.Settings = in.o.Transaction.Settings(e.Message)
	}
	return intake, nil
}

var errNoEntity = errors.New("inbox.Options.Transaction.Entities returned an entity without Space or Key: all such messages would wait for each other; give both, or leave it out")

func (in *Inbox[TTx]) mark(e *partition.Entry) store.Mark {
	m := store.Mark{Consumer: in.group, Identity: e.Identity(), As: store.Done, Fingerprint: in.print(e), KeyOrder: store.Arriving, Key: e.Key}
	if e.Parked != nil {
		m.KeyOrder, m.Attempts, m.Held = store.Retrying, e.Parked.Attempts, true
	}
	return m
}

// reject undoes the handler's rows and stores the verdict and what is to be said in a second transaction,
// which repeats the intake: it stands only if no entity moved between the two, so that a "no" is never stored
// that is no longer true. If one did, the message is simply taken again.
func (in *Inbox[TTx]) reject(ctx context.Context, e *partition.Entry, unit store.Unit[TTx], intake store.Intake, no *skald.RejectedError, r Result) result {
	r.Say = slices.Concat(no.Say, r.Say)
	verdict, err := in.leaves(ctx, e, r, intake, decide.SaysNo)
	if err != nil {
		return in.lentFailed(ctx, e, unit, fmt.Errorf("reject %s: %w", e.ID, err))
	}
	mark := intake.Marks[0]
	if verdict.Answer != nil {
		mark = *verdict.Answer
	}
	mark.As, mark.Reason = store.Rejected, no.Err.Error()
	verdict.Mark, verdict.Answer = &mark, nil
	if in.o.Dead.Rejections {
		verdict.Park, verdict.Finish = in.rejection(e, no, r.Code), nil
		verdict.Rows = append(verdict.Rows, in.announce.Rows(ctx, &verdict.Park.Parked)...)
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
		return in.storeFailed(ctx, e, fmt.Errorf("reject %s: %w", e.ID, err))
	case !stands[0]:
		in.giveBack(ctx, e, in.db.Apply)
		return result{entry: e, what: decide.Again, err: fmt.Errorf("reject %s: %w", e.ID, store.ErrLost)}
	}
	return result{entry: e, what: decide.Rejected}
}
