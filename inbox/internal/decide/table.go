package decide

import "github.com/skald-go/skald/store"

// This file has the rules. In each list the first rule that applies decides.

// takenIn returns the rules after an intake: by mark, then by step.
func takenIn() []rule {
	const (
		open  = StepAbsent | StepParked | StepDead // the step may still be done
		reply = Accepted | Refused
		kept  = Claimed | Admitted
	)
	return []rule{
		// A suspect must be parked before its attempt, but no more messages may be parked.
		{MarkFresh | Suspect, Decision{Do: Stay, Ending: Full}},
		{MarkFresh | NoHandler, Decision{Do: ParkForOtherBuild, Ending: Queued}},
		{MarkFresh | NoStep, Decision{Do: Handle}},
		{MarkFresh | StepTooOld | Delivered | Claimed,
			Decision{Do: Quarantine, Ending: TooOld, Mark: store.TooOld}},

		{MarkFresh | StepCalling | OwnCall | reply | DoesStep, Decision{Do: Handle}},
		{MarkFresh | StepCalling | OwnCall | reply | UndoesStep, Decision{Do: Undo}},
		{MarkFresh | StepCalling | LostCall, Decision{Do: StoreCallAgain, Ending: Later}},
		{MarkFresh | StepCalling | DoesStep, Decision{Do: Wait, Ending: Later}},
		{MarkFresh | StepCalling | UndoesStep, Decision{Do: Wait, Ending: Later, Settle: true}},

		{MarkFresh | DoesStep | StepBarred | StepUndone,
			Decision{Do: CommitWithoutHandler, Ending: Barred, Mark: store.Barred}},
		{MarkFresh | DoesStep | StepDone, Decision{Do: CommitWithoutHandler, Ending: Duplicate,
			Mark: store.Done}},
		{MarkFresh | DoesStep | StepRejected,
			Decision{Do: CommitWithoutHandler, Ending: Duplicate, Mark: store.Rejected}},
		{MarkFresh | open | LegacyUnasked, Decision{Do: AskLegacy}},
		{MarkFresh | DoesStep | open | LegacyDone,
			Decision{Do: CommitWithoutHandler, Ending: Duplicate, Mark: store.Done}},
		// This includes a message that an operator admitted although its step may have expired.
		{MarkFresh | DoesStep, Decision{Do: Handle}},

		{MarkFresh | UndoesStep | StepDone | StepTooOld, Decision{Do: Undo}},
		{MarkFresh | UndoesStep | open | LegacyDone, Decision{Do: Undo}},
		{MarkFresh | UndoesStep | StepDead, Decision{Do: CommitWithoutHandler, Ending: Handled,
			Mark:    store.Done,
			Requeue: true}},
		// There is no effect to undo.
		{MarkFresh | UndoesStep, Decision{Do: CommitWithoutHandler, Ending: Handled, Mark: store.Done}},

		{kept | MarkTooOld | MarkKept | MarkBehind | MarkStale, Decision{Do: Drop, Ending: Stale}},
		{kept | DoesStep | UndoesStep, Decision{Do: DecideByStep, Ending: Duplicate}},
		{kept | MarkConflict, Decision{Do: Quarantine, Ending: Conflict, Mark: store.Conflict}},
		{kept, Decision{Do: DeleteParked, Ending: Duplicate}},

		{MarkBehind | DoesStep | UndoesStep | StepTooOld,
			Decision{Do: Quarantine, Ending: TooOld, Mark: store.TooOld}},
		{MarkBehind, Decision{Do: Queue, Ending: Queued}},
		{MarkKept, Decision{Do: CompareParked, Ending: Duplicate}},
		{MarkTooOld, Decision{Do: Quarantine, Ending: TooOld, Mark: store.TooOld}},
		{MarkConflict, Decision{Do: Quarantine, Ending: Conflict, Mark: store.Conflict}},
		{MarkDone | MarkRejected | MarkBarred | MarkStale, Decision{Do: Repeat, Ending: Duplicate}},
	}
}

// elsewhere returns the rules for a claimed message that an older build or an import marked, perhaps without
// changing its step. The step gets the state that the mark implies. But if the call of the message took
// effect, the step records that effect.
func elsewhere() []rule {
	const (
		own  = StepCalling | OwnCall | LostCall
		open = StepAbsent | StepTooOld | StepParked | StepDead // the intake has set the step to done
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
		return Decision{Do: DeleteParked, Ending: Conflict, Mark: store.Conflict, Step: c, Commits: c.Some()}
	}
	done := func(c Change) Decision {
		return Decision{Do: DeleteParked, Ending: Duplicate, Step: c,
			Commits: true}
	}
	return []rule{
		// The mark belongs to another message, so it is irrelevant for this one.
		{MarkConflict | own | DoesStep | Refused, conflict(rejected)},
		{MarkConflict | own | DoesStep, conflict(taken)},
		{MarkConflict | own | UndoesStep | Refused, conflict(taken)},
		{MarkConflict | own | UndoesStep, conflict(undone)},
		{MarkConflict, conflict(Change{})},

		{DoesStep | own | MarkRejected | MarkBarred | Refused, done(rejected)},
		// The call took effect, so the step is done in spite of the mark.
		{DoesStep | own | MarkRejected | MarkBarred, done(taken)},
		{DoesStep | own | MarkDone, done(byMark(store.StepDone, store.StepCalling))},
		{DoesStep | open | MarkDone, done(byMark(store.StepDone, store.StepDone))},
		{DoesStep | open | MarkRejected, done(byMark(store.StepRejected, store.StepDone))},
		{DoesStep | open | MarkBarred, done(byMark(store.StepBarred, store.StepDone))},
		{DoesStep, done(Change{})}, // another message did or barred the step

		{UndoesStep | own | MarkDone, done(undone)},
		{UndoesStep | own | Refused, done(taken)},
		{UndoesStep | own, done(undone)},
		{UndoesStep | MarkRejected | MarkBarred, Decision{Do: DeleteParked,
			Ending: Duplicate}}, // the message undid nothing
		{UndoesStep | StepTooOld, Decision{Do: DeleteParked,
			Ending: Duplicate}}, // it is unknown if the message undid anything
		// The writer of the mark did not record this call.
		{UndoesStep | StepCalling, Decision{Do: Wait, Ending: Later, Settle: true}},
		{UndoesStep | StepDead, Decision{Do: DeleteParked, Ending: Duplicate, Commits: true, Requeue: true}},
		{UndoesStep, done(Change{})},
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
	intend := func(c Change) Decision { return Decision{Do: StoreCall, Ending: Calling, Step: c} }
	return []rule{
		// A refused call has no effect, even if the handler returned nil.
		{ReturnedNil | DoesStep | Refused, commit(Change{To: store.StepRejected, From: calling})},
		{ReturnedNil | DoesStep | Accepted, commit(Change{To: store.StepDone, From: calling})},
		{ReturnedNil | DoesStep, commit(Change{To: store.StepDone, From: states(store.StepDone),
			IfAnswered: true})},
		{ReturnedNil | UndoesStep | reply, commit(Change{To: store.StepUndone, From: calling})},
		{ReturnedNil, commit(Change{})},

		// A rejection takes effect only if the step was not barred meanwhile. If an undo by a call is
		// rejected, the step stays done.
		{ReturnedReject | DoesStep, reject(Change{To: store.StepRejected,
			From: states(store.StepAbsent, store.StepParked, store.StepDead, store.StepCalling)})},
		{ReturnedReject | UndoesStep | reply, reject(Change{To: store.StepDone, From: calling})},
		{ReturnedReject, reject(Change{})},

		{ReturnedCall | DoesStep, intend(Change{To: store.StepCalling,
			From: states(store.StepAbsent, store.StepParked, store.StepDead)})},
		{ReturnedCall | UndoesStep | StepTooOld,
			intend(Change{To: store.StepCalling, From: states(store.StepAbsent)})},
		{ReturnedCall | UndoesStep, intend(Change{To: store.StepCalling})},
		{ReturnedCall, intend(Change{})},

		{ReturnedRetryNow, Decision{Do: RetryNow, Ending: Again}},
		{ReturnedRetryAfter, Decision{Do: Wait, Ending: Later}},
		{ReturnedError, Decision{Do: Fail, Ending: Failed}},
	}
}

func states(all ...store.StepState) []store.StepState { return all }
