// Package decide says what is to be done about a message, from what was found: the decisions of the inbox as
// one table. It is pure: it knows no transaction, no store's calls and no clock. testdata/table.txt is the
// table, printed.
package decide

import "github.com/skald-go/skald/store"

// An Action is what is to be done about a message.
type Action int

// Actions. Whatever ends a transaction without a commit rolls it back.
const (
	Stay        Action = iota // nothing: it stays at its place
	Drop                      // nothing: somebody else has it
	Leave                     // leave it to a build that has a handler for it
	Handle                    // run its handler
	Undo                      // run its handler, and tell it what it undoes
	AskLegacy                 // ask LegacySteps, and decide again
	FinishBare                // commit it without its handler
	IntendAgain               // store its call once more, under the key that its step knows
	Wait                      // park it for a while
	Queue                     // park it behind those of its key
	LookUp                    // compare it with what is kept under its identity
	Quarantine                // put it into quarantine
	Repeat                    // it is a duplicate: emit again what was emitted, where that is asked for
	// somebody finished it who may know no steps: take in its step alone, and decide again
	TakeInStep
	LetGo     // end its keeping
	Commit    // commit what its handler did
	TakeAgain // take it again at once
	Intend    // store the call that it is to make, instead of all else that its handler did
	Reject    // store the verdict, instead of all that its handler did
	Fail      // sort the error: whose fault it is decides
)

// A Decision is an action with what it leaves behind.
type Decision struct {
	Do      Action
	Ending  Ending        // unless something fails
	Mark    store.Outcome // that the message is marked with, or quarantined for
	Step    Change
	Commits bool // of LetGo: what the intake did to the step stands
	Requeue bool // the dead letter that holds the step goes on
	Settle  bool // the call that the step is at is to be settled, so that the step can be undone
}

// A Change is what becomes of the message's step. The zero value: nothing.
type Change struct {
	To   store.StepState
	From []store.StepState // else the effect does not stand; nil, with a To: as it stood
	// ByMark: the step gets the answer that stands in the mark, instead of the handler's.
	ByMark bool
	// IfAnswered: there is nothing to change unless the handler answered something.
	IfAnswered bool
}

// Some tells whether there is a change.
func (c Change) Some() bool { return c.To != store.StepAbsent }

// A rule says what is to be done where all facts of its groups are among its own.
type rule struct {
	when Facts
	then Decision
}

// A Table decides. It does not change: any goroutine may use it.
type Table struct{ takenIn, elsewhere, answered []rule }

// New is the table.
func New() *Table {
	t := &Table{takenIn: takenIn(), elsewhere: elsewhere(), answered: answered()}
	for _, rules := range [][]rule{t.takenIn, t.elsewhere, t.answered} {
		for i := range rules {
			rules[i].when = whole(rules[i].when)
		}
	}
	return t
}

// TakenIn decides once an intake has answered.
func (t *Table) TakenIn(f Facts) Decision { return first(t.takenIn, f) }

// Elsewhere decides about a claimed message that takes or undoes a step and was marked by somebody else.
func (t *Table) Elsewhere(f Facts) Decision { return first(t.elsewhere, f) }

// Answered decides once the handler has answered.
func (t *Table) Answered(f Facts) Decision { return first(t.answered, f) }

// first is what the first rule says that holds. One holds for whatever was found: see
// TestEverythingIsDecided.
func first(rules []rule, f Facts) Decision {
	for i := range rules {
		if f&^rules[i].when == 0 {
			return rules[i].then
		}
	}
	return Decision{Do: Stay, Ending: Broken}
}

// An Ending is what became of one attempt at a message.
type Ending int

// Endings.
const (
	Handled   Ending = iota // its effect is committed
	Duplicate               // it was finished before; the mark says so
	Rejected                // its handler said no; the verdict is committed
	Conflict                // another payload came under its identity before; it is in quarantine
	TooOld                  // whether it was finished before is forgotten; it is in quarantine
	Queued                  // others of its key are parked; it is parked behind them
	Later                   // its handler said not yet; it is parked
	Failed                  // the message's own failure; it is parked with it
	Dead                    // the same, for the last time; it is a dead letter
	Again                   // nothing was written; it is to be taken again at once
	// the step that it takes was to be undone before it came; the verdict is committed
	Barred
	Stale  // it was claimed, and is not as it was; somebody else has it
	Outage // nobody's fault; nothing was written, or it is not known
	// it should be parked, and the store refuses for a reason that nobody knows; it stays
	Unkept
	Full    // it should be parked, and no more may be
	Broken  // waiting cannot cure it: the consumer stops
	Left    // of a batch: nothing was done about it, it stays at its place
	Calling // what is to be asked of the outside is stored with it; never settled
	Delayed // it failed by what may pass, and was charged nothing; it is parked
)

// String is the value that metrics have as their label, too.
func (e Ending) String() string {
	return [...]string{"processed", "duplicate", "rejected", "conflict", "too_old", "parked", "later",
		"failed", "dead",
		"again", "barred", "stale", "outage", "unkept", "full", "broken", "left", "calling", "delayed"}[e]
}

// Failing tells of an ending that says nothing good of a message's next attempt.
func (e Ending) Failing() bool {
	return e == Failed || e == Dead || e == Outage || e == Unkept || e == Delayed
}

// Finished tells of an ending that leaves a mark, and whose repeats are dropped.
func (e Ending) Finished() bool { return e == Handled || e == Rejected || e == Duplicate }
