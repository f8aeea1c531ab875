// Package decide is the decision table of the inbox: it selects the next action from facts about a message.
// It uses no transaction, no store and no clock. testdata/table.txt has the printed table.
package decide

import "github.com/skald-go/skald/store"

// Action is the next action on a message.
type Action int

// Actions. If an action ends the transaction but does not commit, it rolls back.
const (
	Stay                 Action = iota // do nothing: the message stays in its partition
	Drop                               // do nothing: another process has the message
	ParkForOtherBuild                  // park it for a build with a handler for it
	Handle                             // run its handler
	Undo                               // run its handler, and give it the step to undo
	AskLegacy                          // call LegacySteps, and decide again
	CommitWithoutHandler               // commit it without its handler
	StoreCallAgain                     // store its call again, under the key in its step
	Wait                               // park it for a while
	Queue                              // park it behind other messages of its key
	CompareParked                      // compare it with the parked message or dead letter of its identity
	Quarantine                         // put it into quarantine
	Repeat                             // it is a duplicate: publish its answer again if Repeat selects it
	// DecideByStep decides again by the step alone, because the writer of the mark may not have changed the
	// step.
	DecideByStep
	DeleteParked // delete its parked row
	Commit       // commit the work of its handler
	RetryNow     // retry it immediately
	StoreCall    // store its call, instead of the work of its handler
	Reject       // store the rejection, instead of the work of its handler
	Fail         // classify the error
)

// Decision is an action and its effects.
type Decision struct {
	Do      Action
	Ending  Ending        // the ending, unless the action fails
	Mark    store.Outcome // the mark to write, or the reason of the quarantine
	Step    Change
	Commits bool // with DeleteParked: commit the change of the step by the intake
	Requeue bool // requeue the dead letter that blocks the step
	Settle  bool // settle the call of the step, so that the step can be undone
}

// Change is a change of the message's step. The zero value changes nothing.
type Change struct {
	To         store.StepState
	From       []store.StepState // the states that permit the change; nil permits only the state before
	ByMark     bool              // the step gets the answer of the mark, not of the handler
	IfAnswered bool              // change only if the handler returned a result
}

// Some reports whether there is a change.
func (c Change) Some() bool { return c.To != store.StepAbsent }

// rule applies to a message if when contains all its facts.
type rule struct {
	when Facts
	then Decision
}

// Table has the rules. It is immutable and safe for concurrent use.
type Table struct{ takenIn, elsewhere, answered []rule }

// New returns the table.
func New() *Table {
	t := &Table{takenIn: takenIn(), elsewhere: elsewhere(), answered: answered()}
	for _, rules := range [][]rule{t.takenIn, t.elsewhere, t.answered} {
		for i := range rules {
			rules[i].when = withOmitted(rules[i].when)
		}
	}
	return t
}

// AfterIntake returns the decision after an intake.
func (t *Table) AfterIntake(f Facts) Decision { return firstMatch(t.takenIn, f) }

// AfterOtherMark returns the decision about a claimed message with a step, after another process or an import
// has marked it.
func (t *Table) AfterOtherMark(f Facts) Decision { return firstMatch(t.elsewhere, f) }

// AfterHandler returns the decision after the handler has returned.
func (t *Table) AfterHandler(f Facts) Decision { return firstMatch(t.answered, f) }

// firstMatch returns the decision of the first rule that applies. TestEverythingIsDecided proves that such a
// rule always exists.
func firstMatch(rules []rule, f Facts) Decision {
	for i := range rules {
		if f&^rules[i].when == 0 {
			return rules[i].then
		}
	}
	return Decision{Do: Stay, Ending: Broken}
}

// Ending is the result of one attempt at a message.
type Ending int

// Endings.
const (
	Handled      Ending = iota // its effect is committed
	Duplicate                  // it has a mark, so it was finished before
	Rejected                   // its handler rejected it; the rejection is committed
	Conflict                   // its identity was used with another payload; it is in quarantine
	TooOld                     // its mark may have expired; it is in quarantine
	Queued                     // it is parked behind other messages of its key
	Later                      // its handler asked for a later retry; it is parked
	Failed                     // it failed; it is parked
	Dead                       // it failed for the last time; it is a dead letter
	Again                      // nothing was written; it is retried immediately
	Barred                     // its step was undone before it came; its mark is committed
	Stale                      // its claim is lost: another process has it
	Outage                     // an outage; nothing was written, or it is unknown if anything was
	NotParked                  // the store refused to park it, for an unknown reason; it stays
	Full                       // no more messages may be parked; it stays
	Broken                     // a retry cannot help; the consumer stops
	NotAttempted               // a message of a batch, not attempted; it stays
	Calling                    // its outside call is stored; the attempt continues
	Delayed                    // it failed temporarily, which does not count; it is parked
)

// String returns the name, which is also the label in metrics.
func (e Ending) String() string {
	return [...]string{"processed", "duplicate", "rejected", "conflict", "too_old", "parked", "later",
		"failed", "dead",
		"again", "barred", "stale", "outage", "unkept", "full", "broken", "left", "calling", "delayed"}[e]
}

// Failing reports whether the next attempt at the message will probably fail, too.
func (e Ending) Failing() bool {
	return e == Failed || e == Dead || e == Outage || e == NotParked || e == Delayed
}

// Finished reports whether the message has a mark, so that its duplicates are dropped.
func (e Ending) Finished() bool { return e == Handled || e == Rejected || e == Duplicate }
