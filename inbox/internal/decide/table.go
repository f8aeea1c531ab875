package decide

import "github.com/skald-go/skald/store"

// In each of these lists the first rule that applies decides.

// takenIn returns the rules after an intake: by mark, then by step.
func takenIn() []rule {
	const (
		open  = StoodAbsent | StoodParked | StoodDead // the step is neither done nor barred
		reply = Accepted | Refused
		kept  = Claimed | Admitted
	)
	return []rule{
		{MarkFresh | Suspect, Decision{Do: Stay, Ending: Full}}, // it must be parked, but no more may be
		{MarkFresh | NoHandler, Decision{Do: Leave, Ending: Queued}},
		{MarkFresh | NoStep, Decision{Do: Handle}},
		{MarkFresh | StoodTooOld | Came | Claimed,
			Decision{Do: Quarantine, Ending: TooOld, Mark: store.TooOld}},

		{MarkFresh | StoodCalling | OwnCall | reply | Takes, Decision{Do: Handle}},
		{MarkFresh | StoodCalling | OwnCall | reply | Undoes, Decision{Do: Undo}},
		{MarkFresh | StoodCalling | LostCall, Decision{Do: IntendAgain, Ending: Later}},
		{MarkFresh | StoodCalling | Takes, Decision{Do: Wait, Ending: Later}},
		{MarkFresh | StoodCalling | Undoes, Decision{Do: Wait, Ending: Later, Settle: true}},

		{MarkFresh | Takes | StoodBarred | StoodUndone,
			Decision{Do: FinishBare, Ending: Barred, Mark: store.Barred}},
		{MarkFresh | Takes | StoodDone, Decision{Do: FinishBare, Ending: Duplicate, Mark: store.Done}},
		{MarkFresh | Takes | StoodRejected,
			Decision{Do: FinishBare, Ending: Duplicate, Mark: store.Rejected}},
		{MarkFresh | open | LegacyUnasked, Decision{Do: AskLegacy}},
		{MarkFresh | Takes | open | LegacyTook,
			Decision{Do: FinishBare, Ending: Duplicate, Mark: store.Done}},
		// also a message that an operator admitted although its step may have expired
		{MarkFresh | Takes, Decision{Do: Handle}},

		{MarkFresh | Undoes | StoodDone | StoodTooOld, Decision{Do: Undo}},
		{MarkFresh | Undoes | open | LegacyTook, Decision{Do: Undo}},
		{MarkFresh | Undoes | StoodDead, Decision{Do: FinishBare, Ending: Handled, Mark: store.Done,
			Requeue: true}},
		// there is no effect to undo
		{MarkFresh | Undoes, Decision{Do: FinishBare, Ending: Handled, Mark: store.Done}},

		{kept | MarkTooOld | MarkKept | MarkBehind | MarkStale, Decision{Do: Drop, Ending: Stale}},
		{kept | Takes | Undoes, Decision{Do: TakeInStep, Ending: Duplicate}},
		{kept | MarkConflict, Decision{Do: Quarantine, Ending: Conflict, Mark: store.Conflict}},
		{kept, Decision{Do: LetGo, Ending: Duplicate}},

		{MarkBehind | Takes | Undoes | StoodTooOld,
			Decision{Do: Quarantine, Ending: TooOld, Mark: store.TooOld}},
		{MarkBehind, Decision{Do: Queue, Ending: Queued}},
		{MarkKept, Decision{Do: LookUp, Ending: Duplicate}},
		{MarkTooOld, Decision{Do: Quarantine, Ending: TooOld, Mark: store.TooOld}},
		{MarkConflict, Decision{Do: Quarantine, Ending: Conflict, Mark: store.Conflict}},
		{MarkDone | MarkRejected | MarkBarred | MarkStale, Decision{Do: Repeat, Ending: Duplicate}},
	}
}

// elsewhere returns the rules for a claimed message that an older build or an import marked, perhaps without
// its step. The step changes according to the mark. But if the message's own call took effect, the step
// records that.
func elsewhere() []rule {
	const (
		own  = StoodCalling | OwnCall | LostCall
		open = StoodAbsent | StoodTooOld | StoodParked | StoodDead // the intake has set the step to done
	)
	var (
		taken    = Change{To: store.StepDone, From: states(store.StepCalling)}
		rejected = Change{To: store.StepRejected, From: states(store.StepCalling)}
		undone   = Change{To: store.StepUndone, From: states(store.StepCalling)}
	)
	byMark := func(to, from store.StepState) Change {
		return Change{To: to, From: states(from), ByMark: true}
	}
	conflict := func(c Change) Decision {
		return Decision{Do: LetGo, Ending: Conflict, Mark: store.Conflict, Step: c, Commits: c.Some()}
	}
	done := func(c Change) Decision { return Decision{Do: LetGo, Ending: Duplicate, Step: c, Commits: true} }
	return []rule{
		// the mark belongs to another message, and is irrelevant for this one
		{MarkConflict | own | Takes | Refused, conflict(rejected)},
		{MarkConflict | own | Takes, conflict(taken)},
		{MarkConflict | own | Undoes | Refused, conflict(taken)},
		{MarkConflict | own | Undoes, conflict(undone)},
		{MarkConflict, conflict(Change{})},

		{Takes | own | MarkRejected | MarkBarred | Refused, done(rejected)},
		// the call took effect, so the step is done in spite of the mark
		{Takes | own | MarkRejected | MarkBarred, done(taken)},
		{Takes | own | MarkDone, done(byMark(store.StepDone, store.StepCalling))},
		{Takes | open | MarkDone, done(byMark(store.StepDone, store.StepDone))},
		{Takes | open | MarkRejected, done(byMark(store.StepRejected, store.StepDone))},
		{Takes | open | MarkBarred, done(byMark(store.StepBarred, store.StepDone))},
		{Takes, done(Change{})}, // another message has done or barred the step

		{Undoes | own | MarkDone, done(undone)},
		{Undoes | own | Refused, done(taken)},
		{Undoes | own, done(undone)},
		{Undoes | MarkRejected | MarkBarred, Decision{Do: LetGo, Ending: Duplicate}}, // it undid nothing
		{Undoes | StoodTooOld, Decision{Do: LetGo, Ending: Duplicate}},               // or that is unknown
		// the writer of the mark did not record this call
		{Undoes | StoodCalling, Decision{Do: Wait, Ending: Later, Settle: true}},
		{Undoes | StoodDead, Decision{Do: LetGo, Ending: Duplicate, Commits: true, Requeue: true}},
		{Undoes, done(Change{})},
	}
}

// answered returns the rules after the handler returned.
func answered() []rule {
	const reply = Accepted | Refused
	calling := states(store.StepCalling)
	commit := func(c Change) Decision {
		return Decision{Do: Commit, Ending: Handled, Mark: store.Done, Step: c}
	}
	reject := func(c Change) Decision {
		return Decision{Do: Reject, Ending: Rejected, Mark: store.Rejected, Step: c}
	}
	intend := func(c Change) Decision { return Decision{Do: Intend, Ending: Calling, Step: c} }
	return []rule{
		// A refused call has no effect, even if the handler returned nil.
		{SaysDone | Takes | Refused, commit(Change{To: store.StepRejected, From: calling})},
		{SaysDone | Takes | Accepted, commit(Change{To: store.StepDone, From: calling})},
		{SaysDone | Takes, commit(Change{To: store.StepDone, From: states(store.StepDone),
			IfAnswered: true})},
		{SaysDone | Undoes | reply, commit(Change{To: store.StepUndone, From: calling})},
		{SaysDone, commit(Change{})},

		// A rejection takes effect only if the step was not barred meanwhile. A rejected undo by a call
		// leaves the step done.
		{SaysNo | Takes, reject(Change{To: store.StepRejected,
			From: states(store.StepAbsent, store.StepParked, store.StepDead, store.StepCalling)})},
		{SaysNo | Undoes | reply, reject(Change{To: store.StepDone, From: calling})},
		{SaysNo, reject(Change{})},

		{SaysCall | Takes, intend(Change{To: store.StepCalling,
			From: states(store.StepAbsent, store.StepParked, store.StepDead)})},
		{SaysCall | Undoes | StoodTooOld,
			intend(Change{To: store.StepCalling, From: states(store.StepAbsent)})},
		{SaysCall | Undoes, intend(Change{To: store.StepCalling})},
		{SaysCall, intend(Change{})},

		{SaysAgain, Decision{Do: TakeAgain, Ending: Again}},
		{SaysWait, Decision{Do: Wait, Ending: Later}},
		{SaysError, Decision{Do: Fail, Ending: Failed}},
	}
}

func states(all ...store.StepState) []store.StepState { return all }
