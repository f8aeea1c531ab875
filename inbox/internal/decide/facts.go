// This file has the facts that the rules of the table test.

package decide

import "github.com/skald-go/skald/store"

// Facts is a set of facts about a message. It has at most one fact of each group. In a rule it may have
// several facts of a group: one of them must be true for the message. If a rule has no fact of a group, it
// ignores that group.
type Facts uint64

// The mark of the message. Fresh means that there is none. Conflict means that another message has the
// identity. Kept means that the message is parked or a dead letter. Behind means that other messages of its
// key are parked. Stale means that its claim is lost.
const (
	MarkFresh Facts = 1 << iota
	MarkDone
	MarkRejected
	MarkBarred
	MarkConflict
	MarkTooOld
	MarkKept
	MarkBehind
	MarkStale

	// Delivered means that the message comes from the broker, Claimed that it was parked. Admitted means that
	// an operator admitted it from quarantine.
	Delivered
	Claimed
	Admitted

	// Unsuspected is the default. Suspect means that the message may have crashed its process, and could not
	// be parked before its attempt.
	Unsuspected
	Suspect

	// Handler means that this build has a handler for the type.
	Handler
	NoHandler

	// NoStep means that the message has no step of a saga. With DoesStep it does one, with UndoesStep it
	// undoes one.
	NoStep
	DoesStep
	UndoesStep

	// StepAbsent and the facts up to StepTooOld are states of the step before the intake.
	StepAbsent
	StepDone
	StepCalling
	StepParked
	StepDead
	StepRejected
	StepBarred
	StepUndone
	StepTooOld

	// OthersCall means that another message made the call of a step in state calling. With OwnCall this
	// message made it. With LostCall this message made it, but its parked row has no call.
	OthersCall
	OwnCall
	LostCall

	// Unasked means that the call of the message has no answer yet. Accepted and Refused are the answers.
	Unasked
	Accepted
	Refused

	// LegacyUnasked means that LegacySteps has not been called. LegacyDone and LegacyNot are its results.
	LegacyUnasked
	LegacyDone
	LegacyNot

	// ReturnedNil and the following facts are results of the handler: nil, skald.RetryNow, a call to make,
	// skald.Reject, skald.RetryAfter, or another error.
	ReturnedNil
	ReturnedRetryNow
	ReturnedCall
	ReturnedReject
	ReturnedRetryAfter
	ReturnedError

	end
)

// groups returns the first fact of each group, and then end.
func groups() []Facts {
	return []Facts{MarkFresh, Delivered, Unsuspected, Handler, NoStep, StepAbsent, OthersCall, Unasked,
		LegacyUnasked, ReturnedNil, end}
}

// withOmitted adds to a rule's condition all facts of the groups that the condition omits.
func withOmitted(when Facts) Facts {
	all := groups()
	for i, first := range all[:len(all)-1] {
		if group := all[i+1] - first; when&group == 0 {
			when |= group
		}
	}
	return when
}

// Mark returns the fact of an outcome.
func Mark(o store.Outcome) Facts {
	switch o {
	case store.Fresh:
		return MarkFresh
	case store.Done:
		return MarkDone
	case store.Rejected:
		return MarkRejected
	case store.Barred:
		return MarkBarred
	case store.Conflict:
		return MarkConflict
	case store.TooOld:
		return MarkTooOld
	case store.Waiting, store.Dead:
		return MarkKept
	case store.Behind:
		return MarkBehind
	}
	return MarkStale
}

// Step returns the fact of a step's state.
func Step(s store.StepState) Facts {
	switch s {
	case store.StepDone:
		return StepDone
	case store.StepCalling:
		return StepCalling
	case store.StepParked:
		return StepParked
	case store.StepDead:
		return StepDead
	case store.StepRejected:
		return StepRejected
	case store.StepBarred:
		return StepBarred
	case store.StepUndone:
		return StepUndone
	case store.StepTooOld:
		return StepTooOld
	}
	return StepAbsent
}
