package plan

import (
	"encoding/json"
	"time"
)

// What is the kind of an event.
type What string

// The events. Those of the first block come from an engine that performs an action, or from a participant's
// reply. Parentheses contain the fields of Event that are used.
const (
	Decided What = "decided" // the condition and the occurrences are computed (Skip or Occurrences)
	// Sent means that a request is stored, a command is emitted or a child is started, in the commit of the
	// state (Memo, Until). For a Call the event may be repeated with a new Memo.
	Sent      What = "sent"
	Succeeded What = "done"     // the step took effect (Output); if Reason is set, the saga turns back
	Rejected  What = "rejected" // the step has no effect, and never will have one (Reason)
	// Failed means that one attempt failed (Reason, Memo). If Permanent is set, the step is not retried. If
	// Later is set, the attempt does not count.
	Failed     What = "failed"
	Turn       What = "turn"        // a Lock that waits may now have its entities
	Alone      What = "alone"       // only this attempt of the saga begins; without a Step, none is in progress
	Crashed    What = "crashed"     // the process ended during this attempt of the step or its undo
	UndoSent   What = "undo sent"   // like Sent, for the undo
	UndoDone   What = "undone"      // the undo took effect
	UndoFailed What = "undo failed" // like Failed, for the undo

	Signal What = "signal" // the user's code sent a signal (Name, Occurrence, Output)
	Tick   What = "tick"   // time has passed

	Cancel   What = "cancel"   // the saga is to turn back (Reason)
	Recall   What = "recall"   // the parent of this child turned back, maybe after the child was done (Reason)
	Retry    What = "retry"    // retries a run that waits or is stuck, or all stuck runs if Step is empty
	Complete What = "complete" // an operator completes a run (Output)
	Skip     What = "skip"     // an operator skips a run, or its undo (Reason)
	Pause    What = "pause"    // no further step starts; running steps finish
	Resume   What = "resume"
)

// Event is something that happened to a saga.
type Event struct {
	What             What
	Step, Occurrence string
	Attempt          int // number of the failed attempt; 0 means any
	// Sends is the number of the message that a refusal answers; 0 means any. Successes are applied
	// regardless of Sends.
	Sends     int
	Output    json.RawMessage // JSON
	Memo      json.RawMessage // JSON
	Reason    string
	Permanent bool
	Stick     bool          // for Failed: an operator must decide, because the run may have taken effect
	With      []Member      // for Stick: other runs that may have taken effect with this one, in order
	Later     time.Duration // above 0: the time until the next attempt
	// Passing means that Failed or UndoFailed has a transient reason, such as a deadlock. The attempt does
	// not count, and is retried after the usual waits of the policy.
	Passing     bool
	Until       time.Time // for Sent: the end of a Wait, or the next check of a Lock
	Name        string    // name of a signal
	Skip        bool
	Occurrences []string // distinct, not empty texts
}

// Outcome is the result of an event.
type Outcome string

// Outcomes. After Taken and Early, the new state must be stored. After the others the state has not changed,
// and a transaction that depends on the event must be rolled back.
const (
	Taken      Outcome = "taken"
	Early      Outcome = "early"    // the signal's step has not begun, so the state stores the signal
	Full       Outcome = "full"     // the signal's step has not begun, and the state has MaxEarly signals already
	Repeat     Outcome = "repeat"   // the saga is in this state already
	NotWaiting Outcome = "late"     // the saga does not wait for this event any more
	TooLate    Outcome = "too late" // the pivot is done, or the saga has ended, so it cannot turn back
	Runs       Outcome = "runs"     // the step cannot be skipped: its child or call may have an effect
	Unknown    Outcome = "unknown"  // no such step, occurrence or signal exists
	// TooLarge means that the event's data would leave too little room in the state; see Large.
	TooLarge Outcome = "too large"
)

// Changed reports whether the state must be stored.
func (o Outcome) Changed() bool { return o == Taken || o == Early }

// Verb is the kind of an action.
type Verb string

// The actions, and the events that answer them.
const (
	// DecideStep calls the functions for the step's condition and occurrences. The answer is Decided or
	// Failed.
	DecideStep Verb = "decide"
	// RunStep runs a step: the function of a Do, the Intent of a Call, or the request of a Call if Sent is
	// set. It emits a command or starts a child. It computes the time of a Wait. It adds a Lock to the queues
	// of its entities, or checks these. The answer is Sent, Succeeded, Rejected or Failed.
	RunStep Verb = "run"
	// SettleStep finds out whether a step took effect, after the saga turned back. It uses up the key of a
	// call, cancels a child, or removes a Lock from its queues. The answer is one of those to RunStep.
	SettleStep Verb = "settle"
	// UndoStep undoes a step. The answer is UndoSent, UndoDone or UndoFailed.
	UndoStep Verb = "undo"
	// Finish means that the saga is final. The engine must notify its waiters.
	Finish Verb = "finish"
	// Alarm means that an operator must look at the saga. Reason explains why.
	Alarm Verb = "alarm"
)

// Action is to be performed by the engine. All fields together identify an action. The same action may be
// returned again: after a takeover by another engine, or if a state is advanced twice.
type Action struct {
	Verb             Verb
	Step, Occurrence string
	Attempt          int // 1 is the first, also the first after Retry
	// Sends is the number of messages that were sent before. Step, Occurrence and Sends identify a message.
	Sends   int
	Sent    bool
	Crashes int  // number of crashes; above 0, the action should run alone in its process
	Stuck   bool // for an Alarm: the run waits for an operator; otherwise the saga continues
	Reason  string
}
