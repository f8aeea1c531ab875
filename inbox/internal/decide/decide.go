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
