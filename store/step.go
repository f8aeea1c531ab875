package store

import "time"

// Step is one step of a saga in one service, its consumer. At most one message takes a step. If the undo of a
// step arrives before the message of the step, the store bars the step, and the late message has no effect.
// In contrast to a Step, a mark only records that a message was finished.
type Step struct {
	Consumer   string
	Saga, Name string
	Occurrence string // distinguishes several steps of one name in a saga

	// State in an Intake is the purpose of the message: StepDone takes the step; StepCalling takes the step
	// and continues outside of the transaction; StepUndone undoes the step. In an Effect, State is the new
	// state. In Found, State is the state before the Intake.
	State StepState
	// Identity identifies the message. In Found, it identifies the message that took the step or waits to
	// take it.
	Identity
	// Begun is the time at which the saga began. It is equal in all messages of the saga. Zero means not
	// known; then the store keeps the step forever.
	Begun time.Time

	Code   int32  // the code of the answer to the message that took the step; an Effect writes it
	Result string // the data of that answer, encoded by the caller, stored unchanged
	// OutsideKey is the idempotency key of the current or last external call; "" in an Effect leaves it
	// unchanged.
	OutsideKey string
	Outcome    string // of that call, encoded by the caller; "" in an Effect leaves it unchanged

	// From, in an Effect, lists the states in which the effect may be stored.
	From []StepState
}

// StepState is the state of a step. Its numbers are stored.
type StepState int16

// States of a step. A message may take a step only in the states StepAbsent, StepParked and StepDead.
const (
	StepAbsent StepState = iota // no row exists; never stored
	StepDone                    // its effect is committed
	// StepCalling: an external call that takes or undoes the step is in progress, or its outcome is unknown.
	StepCalling
	StepParked   // its message failed or waits for another message, and will be retried
	StepDead     // its message is a dead letter, or was one before it was dropped
	StepRejected // its handler rejected it for good; there is no effect
	StepBarred   // it was undone before it took effect, and never takes effect
	StepUndone   // it took effect, and was undone
)

// StepTooOld is returned but never stored. It means that the step has no row, and that its saga is so old
// that retention may have deleted the row.
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
