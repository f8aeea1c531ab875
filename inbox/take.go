package inbox

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/store"
)

// A result is what became of one attempt at a message.
type result struct {
	entry *entry
	what  ending
	after time.Duration // for later: not before
	took  time.Duration
	err   error
}

type ending int

const (
	handled   ending = iota // its effect is committed
	duplicate               // it was finished before; the mark says so
	rejected                // its handler said no; the verdict is committed
	conflict                // another payload came under its identity before; it is in quarantine
	tooOld                  // whether it was finished before is forgotten; it is in quarantine
	later                   // not yet; nothing was written
	failed                  // the message's own failure; nothing was written
	outage                  // nobody's fault; nothing was written, or it is not known
	broken                  // waiting cannot cure it: the consumer stops
)

var (
	// ErrNoID is the failure of a message without an id: Skald cannot know it again.
	ErrNoID = errors.New("inbox: the message has no id")
	// ErrNoEnvelope is the failure of a message whose envelope cannot be read.
	ErrNoEnvelope = errors.New("inbox: the envelope cannot be read")
)

// The words are those of the metrics.
func (e ending) String() string {
	return [...]string{"processed", "duplicate", "rejected", "conflict", "too_old", "later", "failed", "outage", "broken"}[e]
}

func (e *entry) readable() bool { return e.Fault == nil && e.unknown == nil }

// attempt is take under a span.
func (in *Inbox[TTx]) attempt(ctx context.Context, e *entry) result {
	ctx, span := in.tel.Process(ctx, &e.Message, e.again+1)
	begun := time.Now()
	r := in.take(ctx, e)
	r.took = time.Since(begun)
	telemetry.End(span, r.what.String(), r.err)
	return r
}

// take does everything for one message, once: after any answer that is handled, duplicate or rejected the
// database holds its mark, and whatever else happens it may be taken again.
func (in *Inbox[TTx]) take(ctx context.Context, e *entry) result {
	switch {
	case e.Fault != nil:
		return result{entry: e, what: failed, err: fmt.Errorf("%w: %w", ErrNoEnvelope, e.Fault)}
	case e.unknown != nil:
		return result{entry: e, what: failed, err: fmt.Errorf("what is it: %w", e.unknown)}
	}
	ctx, cancel := context.WithTimeout(ctx, in.o.Handle+in.o.Wait)
	defer cancel()
	intake, err := in.intake(e)
	if err != nil {
		return in.failure(e, fmt.Errorf("entities and settings of %s: %w", e.ID, err))
	}
	unit, err := in.db.Begin(ctx, intake)
	if err != nil {
		return in.failure(e, fmt.Errorf("take in %s: %w", e.ID, err))
	}
	if e.apart == nil {
		if v := unit.Found().Marks[0]; v.Outcome != store.Fresh {
			return in.known(ctx, e, unit, v, intake.Marks[0].Fingerprint)
		}
	}
	return in.handle(ctx, e, unit, intake)
}

func (in *Inbox[TTx]) intake(e *entry) (intake store.Intake, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	intake = store.Intake{
		Wait:   in.o.Wait,
		Handle: in.o.Handle + 5*time.Second,
	}
	if e.apart == nil {
		intake.Marks = []store.Mark{in.mark(e)}
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
	return store.Mark{Consumer: in.group, Identity: e.id, As: store.Done, Fingerprint: in.print(e)}
}

func (in *Inbox[TTx]) handle(ctx context.Context, e *entry, unit store.Unit[TTx], intake store.Intake) result {
	hctx, cancel := context.WithTimeout(skald.WithCause(ctx, e.Message), in.o.Handle)
	r, err := safely(in.handlers[kind{e.Topic, e.Type}], hctx, unit.Tx(), e.Message)
	cancel()
	var no *skald.RejectedError
	var wait *skald.LaterError
	switch {
	case err == nil:
		return in.finish(ctx, e, unit, intake, r)
	case errors.As(err, &no):
		return in.reject(ctx, e, unit, intake, no, r)
	case errors.As(err, &wait):
		_, _ = unit.Rollback(ctx)
		return result{entry: e, what: later, after: wait.After, err: err}
	}
	_, _ = unit.Rollback(ctx)
	return in.failure(e, fmt.Errorf("handle %s %s: %w", e.Type, e.ID, err))
}

// reject undoes the handler's rows and stores the verdict and what is to be said in a second transaction, which
// repeats the intake: it stands only if no entity moved between the two, so that a "no" is never stored that is
// no longer true. If one did, the message is simply taken again.
func (in *Inbox[TTx]) reject(ctx context.Context, e *entry, unit store.Unit[TTx], intake store.Intake, no *skald.RejectedError, r Result) result {
	r.Say = slices.Concat(no.Say, r.Say)
	verdict, err := in.leaves(ctx, e, r, intake)
	if err != nil {
		_, _ = unit.Rollback(ctx)
		return in.failure(e, fmt.Errorf("reject %s: %w", e.ID, err))
	}
	if e.apart == nil {
		mark := intake.Marks[0]
		if verdict.Answer != nil {
			mark = *verdict.Answer
		}
		mark.As, mark.Reason = store.Rejected, no.Err.Error()
		verdict.Mark, verdict.Answer = &mark, nil
	}
	verdict.Locks = slices.Clone(intake.Locks)
	for i, version := range unit.Found().Locks {
		verdict.Locks[i].Version = version
	}
	stands, err := unit.Rollback(ctx, verdict)
	switch {
	case err != nil:
		return in.failure(e, fmt.Errorf("reject %s: %w", e.ID, err))
	case !stands[0] && e.apart != nil:
		return result{entry: e, what: duplicate} // another instance has taken it; if not, it is found again
	case !stands[0]:
		return result{entry: e, what: later, err: fmt.Errorf("reject %s: %w", e.ID, store.ErrLost)}
	}
	return result{entry: e, what: rejected}
}

// failure sorts an error: whose fault it is decides what becomes of the message.
func (in *Inbox[TTx]) failure(e *entry, err error) result {
	what := failed
	switch {
	case store.Incurable(err), errors.Is(err, store.ErrLent):
		what = broken
	case errors.Is(err, store.ErrBusy), errors.Is(err, store.ErrLost), in.db.Outage(err):
		what = outage
	}
	return result{entry: e, what: what, err: err}
}

// A PanicError is a handler's panic: a failure with its stack, not a dead process.
type PanicError struct {
	Value any
	Stack []byte
}

func (p *PanicError) Error() string { return fmt.Sprintf("handler panicked: %v\n%s", p.Value, p.Stack) }

func safely[TTx any](h ResultHandler[TTx], ctx context.Context, tx TTx, m skald.Message) (r Result, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return h(ctx, tx, m)
}
