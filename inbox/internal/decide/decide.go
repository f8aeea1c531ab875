// Package decide is the decision table of the inbox: from facts about a message it selects the next action.
// It is pure: it uses no transaction, no store and no clock. testdata/table.txt has the printed table.
package decide

import "github.com/skald-go/skald/store"

// Action is the next action on a message.
type Action int

// Actions. An action that ends a transaction without a commit rolls it back.
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
	Repeat                             // it is a duplicate: publish its answer again if Identity.Repeat selects it
	// DecideByStep decides again with the step alone: a writer of the mark may not have recorded steps.
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
	Ending  Ending        // unless the action fails
	Mark    store.Outcome // the mark to write, or the reason of the quarantine
	Step    Change
	Commits bool // with DeleteParked: commit the change of the step by the intake
	Requeue bool // requeue the dead letter that blocks the step
	Settle  bool // settle the call of the step, so that the step can be undone
}

// Change changes the message's step. The zero value changes nothing.
type Change struct {
	To         store.StepState
	From       []store.StepState // the required states; nil: the state before
	ByMark     bool              // store the answer of the mark in the step, not the handler's
	IfAnswered bool              // change only if the handler returned a result
}

// Some reports whether there is a change.
func (c Change) Some() bool { return c.To != store.StepAbsent }

// rule applies if each fact of a message is in when.
type rule struct {
	when Facts
	then Decision
}

// Table decides. It is immutable and safe for concurrent use.
type Table struct{ takenIn, elsewhere, answered []rule }

// New returns the table.
func New() *Table {
	t := &Table{takenIn: takenIn(), elsewhere: elsewhere(), answered: answered()}
	for _, rules := range [][]rule{t.takenIn, t.elsewhere, t.answered} {
		for i := range rules {
			rules[i].when = whole(rules[i].when)
		}
	}
	return t
}

// AfterIntake decides after an intake.
func (t *Table) AfterIntake(f Facts) Decision { return first(t.takenIn, f) }

// AfterOtherMark decides about a claimed message with a step that another process or an import marked.
func (t *Table) AfterOtherMark(f Facts) Decision { return first(t.elsewhere, f) }

// AfterHandler decides after the handler returned.
func (t *Table) AfterHandler(f Facts) Decision { return first(t.answered, f) }

// first returns the decision of the first rule that applies. TestEverythingIsDecided proves that one does.
func first(rules []rule, f Facts) Decision {
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
	Duplicate                  // it has a mark: it was finished before
	Rejected                   // its handler rejected it; the rejection is committed
	Conflict                   // its identity came before with another payload; it is in quarantine
	TooOld                     // a mark of it may have expired; it is in quarantine
	Queued                     // it is parked behind other messages of its key
	Later                      // its handler asked for a later retry; it is parked
	Failed                     // it failed; it is parked
	Dead                       // it failed for the last time; it is a dead letter
	Again                      // nothing was written; it is retried immediately
	Barred                     // its step was undone before it came; that is committed
	Stale                      // its claim is lost: another process has it
	Outage                     // an outage; nothing was written, or that is unknown
	NotParked                  // the store refused to park it, for an unknown reason; it stays
	Full                       // no more messages may be parked; it stays
	Broken                     // waiting cannot help: the consumer stops
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
