package decide

import "github.com/skald-go/skald/store"

// Facts is a set of facts about a message, at most one of each group. A rule may have several facts of a
// group: one of them must be true. A rule without a fact of a group ignores that group.
type Facts uint64

// The mark of the message. Fresh: it has none. Conflict: it belongs to another message. Kept: the message is
// parked or a dead letter already. Behind: other messages of its key are parked. Stale: its claim is lost.
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

	// Delivered is from the broker, Claimed is parked, Admitted was admitted from quarantine by an operator.
	Delivered
	Claimed
	Admitted

	// Unsuspected is the default. Suspect may have crashed its process, and could not be parked before its
	// attempt.
	Unsuspected
	Suspect

	// Handler is true if this build has a handler for the type.
	Handler
	NoHandler

	// NoStep has no step of a saga, Takes does one, Undoes undoes one.
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

	// OthersCall is a step in state calling by another message, OwnCall by this one. LostCall is by this one,
	// but its row has no call.
	OthersCall
	OwnCall
	LostCall

	// Unasked is a message without an answer to its call; Accepted and Refused are such answers.
	Unasked
	Accepted
	Refused

	// LegacyUnasked is a step before the lookup of LegacySteps, LegacyDone and LegacyNot are the results.
	LegacyUnasked
	LegacyDone
	LegacyNot

	// ReturnedNil and the following are results of the handler: nil, skald.RetryNow, a call to make,
	// skald.Reject, skald.RetryAfter, another error.
	ReturnedNil
	ReturnedRetryNow
	ReturnedCall
	ReturnedReject
	ReturnedRetryAfter
	ReturnedError

	end
)

// groups returns the first fact of each group, and the end.
func groups() []Facts {
	return []Facts{MarkFresh, Delivered, Unsuspected, Handler, NoStep, StepAbsent, OthersCall, Unasked,
		LegacyUnasked, ReturnedNil, end}
}

// whole adds to a rule's condition all facts of each group that it does not name.
func whole(when Facts) Facts {
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
