package decide

import "github.com/skald-go/skald/store"

// The first rule that holds decides.

// takenIn are the rules for a message whose intake has answered: by its mark, and then by its step.
func takenIn() []rule {
	const (
		open  = StoodAbsent | StoodParked | StoodDead // nobody took the step, or barred it
		reply = Accepted | Refused
		kept  = Claimed | Admitted
	)
	return []rule{
		{MarkFresh | Suspect, Decision{Do: Stay, Ending: Full}}, // it is to be parked, and there is no room
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
		// also what an operator admitted although its step may be forgotten
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

// elsewhere are the rules for a claimed message that somebody else marked, who may know no steps: a build
// from before, or an import of marks. The step becomes what the mark says, as it would have here; but what
// the message's own call has moved is not forgotten.
func elsewhere() []rule {
	const (
		own  = StoodCalling | OwnCall | LostCall
		open = StoodAbsent | StoodTooOld | StoodParked | StoodDead // the intake took the step
	)
	var (
		taken    = Change{To: store.StepDone, From: states(store.StepCalling)}
		rejected = Change{To: store.StepRejected, From: states(store.StepCalling)}
		undone   = Change{To: store.StepUndone, From: states(store.StepCalling)}
	)
	byMark := func(to, from store.StepState) Change {
		return Change{To: to, From: states(from), ByMark: true}
	}
	apart := func(c Change) Decision {
		return Decision{Do: LetGo, Ending: Conflict, Mark: store.Conflict, Step: c, Commits: c.Some()}
	}
	done := func(c Change) Decision { return Decision{Do: LetGo, Ending: Duplicate, Step: c, Commits: true} }
	return []rule{
		// the mark is of another message, and says nothing of this one
		{MarkConflict | own | Takes | Refused, apart(rejected)},
		{MarkConflict | own | Takes, apart(taken)},
		{MarkConflict | own | Undoes | Refused, apart(taken)},
		{MarkConflict | own | Undoes, apart(undone)},
		{MarkConflict, apart(Change{})},

		{Takes | own | MarkRejected | MarkBarred | Refused, done(rejected)},
		// what the call has moved was taken, whatever the mark says
		{Takes | own | MarkRejected | MarkBarred, done(taken)},
		{Takes | own | MarkDone, done(byMark(store.StepDone, store.StepCalling))},
		{Takes | open | MarkDone, done(byMark(store.StepDone, store.StepDone))},
		{Takes | open | MarkRejected, done(byMark(store.StepRejected, store.StepDone))},
		{Takes | open | MarkBarred, done(byMark(store.StepBarred, store.StepDone))},
		{Takes, done(Change{})}, // somebody else has taken or barred it

		{Undoes | own | MarkDone, done(undone)},
		{Undoes | own | Refused, done(taken)},
		{Undoes | own, done(undone)},
		{Undoes | MarkRejected | MarkBarred, Decision{Do: LetGo, Ending: Duplicate}}, // it undid nothing
		{Undoes | StoodTooOld, Decision{Do: LetGo, Ending: Duplicate}},               // or nobody knows what
		// whoever marked it did not know of this call
		{Undoes | StoodCalling, Decision{Do: Wait, Ending: Later, Settle: true}},
		{Undoes | StoodDead, Decision{Do: LetGo, Ending: Duplicate, Commits: true, Requeue: true}},
		{Undoes, done(Change{})},
	}
}

// answered are the rules for a message whose handler has answered.
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
		// What was refused did not take effect, whatever the handler made of it.
		{SaysDone | Takes | Refused, commit(Change{To: store.StepRejected, From: calling})},
		{SaysDone | Takes | Accepted, commit(Change{To: store.StepDone, From: calling})},
		{SaysDone | Takes, commit(Change{To: store.StepDone, From: states(store.StepDone),
			IfAnswered: true})},
		{SaysDone | Undoes | reply, commit(Change{To: store.StepUndone, From: calling})},
		{SaysDone, commit(Change{})},

		// A rejection stands only if nobody barred the step meanwhile. What undoes a step by a call has not
		// undone it.
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
