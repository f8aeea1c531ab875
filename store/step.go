package store

import "time"

// A Step is one step of a saga at one participant, its consumer: at most one message takes it, and whoever
// undoes it bars what comes late. A mark says that a message was finished; only a step says that something
// took effect.
type Step struct {
	Consumer   string
	Saga, Name string
	Occurrence string // which of several, where a saga takes a step of one name more than once

	// State, in an Intake, is what the message is about: StepDone takes the step, StepCalling takes it and
	// goes on outside of the transaction, StepUndone undoes it. In an Effect it is what becomes of it. Found,
	// it is how it stood before.
	State StepState
	// Identity is of the message; found, of the one that took it or waits to.
	Identity
	// Begun is when the saga began, the same for all its messages. Zero: not known; then the step is kept for
	// ever.
	Begun time.Time

	Code   int32  // what was answered when the step was taken, and Result: they go with an Effect
	Result string // encoded; as it is
	// the idempotency key of the call that is under way, or was made last; "" in an Effect: as it is
	OutsideKey string
	Outcome    string // of that call, in the words of whoever made it; "" in an Effect: as it is

	// From, in an Effect, is how the step may stand for the effect to hold.
	From []StepState
}

// A StepState is how a step stands. Its numbers are stored.
type StepState int16

// Of a step that another message takes, those up to StepDead say that it may; the others say why not.
const (
	StepAbsent StepState = iota // nothing is known of it; never stored
	StepDone                    // its effect is committed
	// a call outside is under way that takes it, or undoes it, or what became of it is not known
	StepCalling
	StepParked   // its message failed, or waits behind another, and will be tried again
	StepDead     // its message is a dead letter, or was one that was dropped
	StepRejected // its handler said no, for good: there is no effect
	StepBarred   // it was to be undone before it took effect, and never will
	StepUndone   // it took effect, and was undone
)

// StepTooOld is answered, and never stored: nothing is known of the step, and its saga is so old that it may
// be forgotten.
const StepTooOld StepState = -1

func (s StepState) String() string {
	switch s {
	case StepAbsent:
		return "absent"
	case StepDone:
		return "done"
	case StepCalling:
		return "calling"
	case StepParked:
		return "parked"
	case StepDead:
		return "dead"
	case StepRejected:
		return "rejected"
	case StepBarred:
		return "barred"
	case StepUndone:
		return "undone"
	case StepTooOld:
		return "too old"
	}
	return "unknown"
}
