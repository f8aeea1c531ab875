package decide

import "github.com/skald-go/skald/store"

// Facts are what is known of a message when something is decided: one of each group at most. A rule has
// several of a group where it does not matter which; a group that a rule does not name does not matter to it.
type Facts uint64

// What the mark of the message says. Fresh: there is none. Conflict: it is of another message. Kept: the
// message is parked or a dead letter already. Behind: others of its key are parked. Stale: it was claimed,
// and is not as it was.
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

	// Where the message comes from: the broker, what is parked, or the quarantine, where an operator admitted
	// it.
	Came
	Claimed
	Admitted

	// Suspect: its process may have died of it, and it could not be parked before it is run.
	Unsuspected
	Suspect

	// Whether this build has a handler for its type.
	Handler
	NoHandler

	// What the message is to a saga: it takes a step, undoes one, or neither.
	NoStep
	Takes
	Undoes

	// How the step stood before the intake.
	StoodAbsent
	StoodDone
	StoodCalling
	StoodParked
	StoodDead
	StoodRejected
	StoodBarred
	StoodUndone
	StoodTooOld

	// Whose call a step is at that stood at calling. Lost: the message's own, but it is kept without that
	// call.
	OthersCall
	OwnCall
	LostCall

	// What the outside answered to the call of the message. Unasked: there is no answer yet.
	Unasked
	Accepted
	Refused

	// What LegacySteps knows of the step.
	LegacyUnasked
	LegacyTook
	LegacyNot

	// What the handler answered: nil, skald.RetryNow, a call to make, skald.Reject, skald.RetryAfter, another
	// error.
	SaysDone
	SaysAgain
	SaysCall
	SaysNo
	SaysWait
	SaysError

	end
)

// groups are the first facts of each group, and the end.
func groups() []Facts {
	return []Facts{MarkFresh, Came, Unsuspected, Handler, NoStep, StoodAbsent, OthersCall, Unasked,
		LegacyUnasked, SaysDone, end}
}

// whole is a rule's condition, with all facts of each group that it does not name.
func whole(when Facts) Facts {
	all := groups()
	for i, first := range all[:len(all)-1] {
		if group := all[i+1] - first; when&group == 0 {
			when |= group
		}
	}
	return when
}

// Mark is the fact that an outcome is.
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

// Stood is the fact that a step stood so.
func Stood(s store.StepState) Facts {
	switch s {
	case store.StepDone:
		return StoodDone
	case store.StepCalling:
		return StoodCalling
	case store.StepParked:
		return StoodParked
	case store.StepDead:
		return StoodDead
	case store.StepRejected:
		return StoodRejected
	case store.StepBarred:
		return StoodBarred
	case store.StepUndone:
		return StoodUndone
	case store.StepTooOld:
		return StoodTooOld
	}
	return StoodAbsent
}
