// This file registers the handlers of saga steps: messages that do a step and messages that undo it.

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

// StepID identifies one step of one saga: the charge of an order. At most one message does the step. After
// its undo no message does it.
type StepID struct {
	Saga string // the id of the order, or the message's CorrelationID
	Name string // "charge"
	// Occurrence distinguishes steps with one name if a saga does them more than once. For example, if an
	// order that changed is charged again, it is the number of the change.
	Occurrence string
	// Begun is the time when the saga began. It must be the same for all its messages. A step expires at the
	// age store.Retention.Steps. Default: the time in Saga, if that is a UUID of version 7 or the
	// CorrelationID of an engine's messages. Otherwise the step is kept forever.
	Begun time.Time
}

// DoneStep is the step that an undo has to undo. If an operator admitted the undo although the step may have
// expired, only the field Step is set.
type DoneStep struct {
	Step   StepID
	ID     store.Identity // of the message that did the step
	Code   int32          // of the Result of its handler
	Result []byte         // the encoded Value of that Result
}

// Step declares a step that messages do and undo. T is the payload of these messages. If do and undo have
// different payloads, declare two Steps with the same name.
type Step[TTx, T any] struct {
	in *Inbox[TTx]
	of func(skald.Received[T]) StepID
}

// StepOption is an option of NewStep.
type StepOption[T any] func(skald.Received[T], *StepID)

// NewStep returns the step with this name. The function saga returns the id of the saga that a message
// belongs to, for example its CorrelationID or the id of an order.
func NewStep[TTx, T any](in *Inbox[TTx], name string, saga func(m skald.Received[T]) string,
	opts ...StepOption[T]) *Step[TTx, T] {
	return &Step[TTx, T]{in, func(m skald.Received[T]) StepID {
		id := StepID{Saga: saga(m), Name: name}
		for _, o := range opts {
			o(m, &id)
		}
		return id
	}}
}

// Occurrence sets StepID.Occurrence.
func Occurrence[T any](of func(m skald.Received[T]) string) StepOption[T] {
	return func(m skald.Received[T], id *StepID) { id.Occurrence = of(m) }
}

// Begun sets StepID.Begun.
func Begun[T any](at func(m skald.Received[T]) time.Time) StepOption[T] {
	return func(m skald.Received[T], id *StepID) { id.Begun = at(m) }
}

// ErrNoStep is the failure of a message with an empty Saga or Name in its StepID.
var ErrNoStep = errors.New("inbox: the message names no step of a saga: give Saga and Name")

// DoOption is an option of DoOn and DoCallOn.
type DoOption[T any] func(*doing[T])

type doing[T any] struct {
	barred func(skald.Received[T]) []skald.Draft
}

// IfBarred publishes drafts if the step was undone before its message came. In this case the inbox does not
// call the handler.
func IfBarred[T any](drafts func(m skald.Received[T]) []skald.Draft) DoOption[T] {
	return func(d *doing[T]) { d.barred = drafts }
}

// UndoOption is an option of UndoOn and UndoCallOn.
type UndoOption[T any] func(*undoing[T])

type undoing[T any] struct {
	reply func(skald.Received[T], store.StepState) []skald.Draft
}

// Reply publishes drafts after each undo, even if there was nothing to undo. The argument was is the state of
// the step before the undo. It is store.StepDone if the undo ran.
func Reply[T any](drafts func(m skald.Received[T], was store.StepState) []skald.Draft) UndoOption[T] {
	return func(u *undoing[T]) { u.reply = drafts }
}

// DoOn registers the function handle as the handler of the event e, which does the step s. The transaction
// of handle records the step as done, with the Result of handle for the undo. A second message for the same
// step is a duplicate of the first.
//
// The order and the topics of the messages do not matter. If the undo came first, the inbox does not call
// handle, and finishes the message as barred.
func DoOn[TTx, T any](s *Step[TTx, T], e skald.Event[T],
	handle func(ctx context.Context, tx TTx, m skald.Received[T]) (Result, error), opts ...DoOption[T]) {
	OnResult(s.in, e, handle)
	s.registerDo(e, opts)
}

// registerDo registers e as the event of a message that does the step.
func (s *Step[TTx, T]) registerDo(e skald.Event[T], opts []DoOption[T]) {
	var d doing[T]
	for _, o := range opts {
		o(&d)
	}
	s.in.exec.SetStepRole(store.Kind{Topic: e.Topic, Type: e.Type}, exec.StepRole{State: store.StepDone,
		Of: stepOf(e, s.of), Publish: draftsOf(e, ignoreState(d.barred))})
}

// draftsOf returns a function that builds the drafts for a message if its handler is not called. The drafts
// depend on the state of the step; build may be nil.
func draftsOf[T any](e skald.Event[T],
	build func(skald.Received[T], store.StepState) []skald.Draft) func(context.Context, skald.Message,
	store.StepState) ([]skald.Draft, error) {
	return func(ctx context.Context, m skald.Message, was store.StepState) ([]skald.Draft, error) {
		r, err := decode(ctx, e, m)
		if err != nil || build == nil {
			return nil, err
		}
		return build(r, was), nil
	}
}

// ignoreState adapts barred, which may be nil, to a function with an unused state.
func ignoreState[T any](barred func(skald.Received[T]) []skald.Draft) func(skald.Received[T],
	store.StepState) []skald.Draft {
	if barred == nil {
		return nil
	}
	return func(r skald.Received[T], _ store.StepState) []skald.Draft { return barred(r) }
}

// UndoOn registers undo as the handler of e that undoes the step s. The inbox calls undo only if a message of
// DoOn took effect, and at most once. Otherwise it bars the step.
//
// A message for a barred step has no effect. This includes a later message, and one that is parked or a dead
// letter under another key. Under the same key the undo waits for that message.
func UndoOn[TTx, T any](s *Step[TTx, T], e skald.Event[T],
	undo func(ctx context.Context, tx TTx, m skald.Received[T], done DoneStep) (Result, error),
	opts ...UndoOption[T]) {
	reply := replyOf(opts)
	OnResult(s.in, e, func(ctx context.Context, tx TTx, m skald.Received[T]) (Result, error) {
		done, _ := DoneStepOf(ctx) // there is one: otherwise the inbox does not call the handler
		r, err := undo(ctx, tx, m, done)
		if err == nil && reply != nil {
			r.Publish = append(r.Publish, reply(m, store.StepDone)...)
		}
		return r, err
	})
	s.in.exec.SetStepRole(store.Kind{Topic: e.Topic, Type: e.Type}, exec.StepRole{State: store.StepUndone,
		Of: stepOf(e, s.of), Publish: draftsOf(e, reply)})
}

func replyOf[T any](opts []UndoOption[T]) func(skald.Received[T], store.StepState) []skald.Draft {
	var u undoing[T]
	for _, o := range opts {
		o(&u)
	}
	return u.reply
}

// DoneStepOf returns the step that the current message undoes. Call it in Intent and Settle of UndoCallOn. It
// returns false if the message undoes nothing.
func DoneStepOf(ctx context.Context) (DoneStep, bool) {
	step, found, some := exec.Undone(ctx)
	if !some {
		return DoneStep{}, false
	}
	return DoneStep{Step: stepOfRow(&step), ID: found.Identity, Code: found.Code,
		Result: []byte(found.Result)}, true
}

// LegacyLookup returns true if a table of your own has a step that took effect without Skald. In the same
// statement it records in that table that the step is done now. If undo is true it records instead that the
// step will never be done. It must block while another transaction locks that row.
type LegacyLookup[TTx any] func(ctx context.Context, tx TTx, s StepID, undo bool) (bool, error)

// LegacySteps registers the function lookUp, which looks up steps that were done without DoOn: in the past,
// or by other members of the group. The inbox calls lookUp in the message's transaction, for a step that
// DoOn has not done. If lookUp returns true, the step is not done again, and an undo undoes it. Nil disables
// the lookup. Call LegacySteps before Run.
func (in *Inbox[TTx]) LegacySteps(lookUp LegacyLookup[TTx]) {
	if lookUp == nil {
		in.exec.LegacySteps(nil)
		return
	}
	in.exec.LegacySteps(func(ctx context.Context, tx TTx, s *store.Step, undo bool) (bool, error) {
		return lookUp(ctx, tx, stepOfRow(s), undo)
	})
}

// stepOfRow returns the id of a step in the store.
func stepOfRow(s *store.Step) StepID {
	return StepID{Saga: s.Saga, Name: s.Name, Occurrence: s.Occurrence, Begun: s.Begun}
}

// stepOf returns a function that returns the step of a message, as a row of the store.
func stepOf[T any](e skald.Event[T],
	of func(skald.Received[T]) StepID) func(context.Context, skald.Message) (store.Step, error) {
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
