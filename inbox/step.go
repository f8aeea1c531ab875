package inbox

import (
	"context"
	"errors"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
)

// A Step is one step of one saga at this consumer: the charge of an order. At most one message takes it, and
// once a compensation came, none does.
type Step struct {
	Saga string // which: the id of the order, or the message's CorrelationID
	Name string // "charge"
	// Occurrence tells steps of one name apart where a saga takes them more than once: the number of the
	// change, if an order that is changed is charged again.
	Occurrence string
	// Begun is when the saga began, the same for all its messages. A step is forgotten once it is as old as
	// store.Retention.Steps. Default: the time in Saga, where that is a UUID of version 7, or what an engine
	// gives its messages as their CorrelationID; else it is kept for ever.
	Begun time.Time
}

// A Took is what a compensation has to undo. Of one that an operator admitted although its step may be
// forgotten, Step is all that is known.
type Took struct {
	Step   Step
	ID     store.Identity // of the message that took it
	Code   int32          // what its handler answered
	Result []byte         // the same, as it was encoded
}

// ErrNoStep is the failure of a message that names no saga or no step.
var ErrNoStep = errors.New("inbox: the message names no step of a saga: give Saga and Name")

// Forward handles e with h as a step forward of a saga: in the same transaction, the step is noted as done.
// Whatever the order in which they come, and from wherever: if its compensation was first, h is not called;
// the message is finished as barred, and what barred says is published (nil: nothing). What h answers is kept
// with the step, for the compensation. A second message for the same step is a repeat of the first.
func Forward[TTx, T any](in *Inbox[TTx], e skald.Event[T], of func(skald.Received[T]) Step,
	h func(ctx context.Context, tx TTx, m skald.Received[T]) (Result, error),
	barred func(m skald.Received[T]) []skald.Draft) {
	OnResult(in, e, h)
	in.exec.Course(store.Kind{Topic: e.Topic, Type: e.Type}, exec.Course{
		State: store.StepDone,
		Of:    stepOf(e, of),
		Say:   sayOf(e, anyhow(barred)),
	})
}

// sayOf is what is said where no handler is run, by how the step stood; say may be nil.
func sayOf[T any](e skald.Event[T],
	say func(skald.Received[T], store.StepState) []skald.Draft) func(context.Context, skald.Message,
	store.StepState) ([]skald.Draft, error) {
	return func(ctx context.Context, m skald.Message, was store.StepState) ([]skald.Draft, error) {
		r, err := decode(ctx, e, m)
		if err != nil || say == nil {
			return nil, err
		}
		return say(r, was), nil
	}
}

// anyhow is barred, however the step stood; it may be nil.
func anyhow[T any](barred func(skald.Received[T]) []skald.Draft) func(skald.Received[T],
	store.StepState) []skald.Draft {
	if barred == nil {
		return nil
	}
	return func(r skald.Received[T], _ store.StepState) []skald.Draft { return barred(r) }
}

// Compensate handles e by undoing what Forward's message of the same step did. Undo is called only if that
// took effect, and at most once; else the step is barred: a message that would take it and comes late, or is
// parked or a dead letter under another key, will not. Under the same key a compensation waits for that one.
// Say (nil: nothing) is published with how the step stood: a refund is answered if none was due, too.
func Compensate[TTx, T any](in *Inbox[TTx], e skald.Event[T], of func(skald.Received[T]) Step,
	undo func(ctx context.Context, tx TTx, m skald.Received[T], took Took) (Result, error),
	say func(m skald.Received[T], was store.StepState) []skald.Draft) {
	OnResult(in, e, func(ctx context.Context, tx TTx, m skald.Received[T]) (Result, error) {
		took, _ := TookOf(ctx) // it is called for no message without
		r, err := undo(ctx, tx, m, took)
		if err == nil && say != nil {
			r.Say = append(r.Say, say(m, store.StepDone)...)
		}
		return r, err
	})
	in.exec.Course(store.Kind{Topic: e.Topic, Type: e.Type}, exec.Course{
		State: store.StepUndone,
		Of:    stepOf(e, of),
		Say:   sayOf(e, say),
	})
}

// TookOf is what the message in hand undoes: for the Intent and the Settle of CompensateCall. False: it
// undoes nothing.
func TookOf(ctx context.Context) (Took, bool) {
	step, stood, some := exec.Undone(ctx)
	if !some {
		return Took{}, false
	}
	return Took{Step: stepOfRow(&step), ID: stood.Identity, Code: stood.Code, Result: []byte(stood.Result)},
		true
}

// A LegacyLookup function asks a table of your own whether a step took effect before it had a row of Skald's,
// and notes there, in the same statement, that it is taken now or (undo) will not be. It waits for a rival
// that has the row in hand.
type LegacyLookup[TTx any] func(ctx context.Context, tx TTx, s Step, undo bool) (bool, error)

// LegacySteps is for a consumer whose steps were taken by hand before they were taken by Forward, or still
// are by others of its group: of a step that nobody here has taken took is asked, in the message's
// transaction. What it knows of is not taken again, and is undone. Nil: nothing is asked. Tell it before Run.
func (in *Inbox[TTx]) LegacySteps(took LegacyLookup[TTx]) {
	if took == nil {
		in.exec.LegacySteps(nil)
		return
	}
	in.exec.LegacySteps(func(ctx context.Context, tx TTx, s *store.Step, undo bool) (bool, error) {
		return took(ctx, tx, stepOfRow(s), undo)
	})
}

// stepOfRow is a step of the store as it is named here.
func stepOfRow(s *store.Step) Step {
	return Step{Saga: s.Saga, Name: s.Name, Occurrence: s.Occurrence, Begun: s.Begun}
}

// stepOf names the step of a message.
func stepOf[T any](e skald.Event[T],
	of func(skald.Received[T]) Step) func(context.Context, skald.Message) (store.Step, error) {
	return func(ctx context.Context, m skald.Message) (store.Step, error) {
		r, err := decode(ctx, e, m)
		if err != nil {
			return store.Step{}, err
		}
		step := of(r)
		if step.Saga == "" || step.Name == "" {
			return store.Step{}, skald.Permanent(ErrNoStep)
		}
		if step.Begun.IsZero() {
			step.Begun, _ = uuid7.Begun(step.Saga)
		}
		return store.Step{Saga: step.Saga, Name: step.Name, Occurrence: step.Occurrence, Begun: step.Begun},
			nil
	}
}
