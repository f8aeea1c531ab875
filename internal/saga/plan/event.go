package plan

import (
	"encoding/json"
	"time"
)

// What is the kind of an event.
type What string

// The events. Those of the first block come from an engine that performs an action, or from a participant's
// reply. Comments name the fields that are used.
const (
	Decided What = "decided" // Skip, or Occurrences if the step has them
	// Sent means that the request is stored, the command written or the child started, in the same commit.
	// Memo, Until. For a Call it may come again, with a new Memo.
	Sent      What = "sent"
	Succeeded What = "done"     // the step took effect. Output; with a Reason the saga turns back
	Rejected  What = "rejected" // the step took no effect and never will. Reason
	// Failed is about one attempt. Reason, Memo; Permanent prevents a retry; with Later the attempt does
	// not count.
	Failed     What = "failed"
	Turn       What = "turn"        // of a Lock that waits: it may be first in line
	Alone      What = "alone"       // the attempt begins, and no other of the saga; without Step, none
	Crashed    What = "crashed"     // the process ended during this attempt, or during the undo's
	UndoSent   What = "undo sent"   // as Sent, of the undo
	UndoDone   What = "undone"      // of the undo
	UndoFailed What = "undo failed" // as Failed, of the undo

	Signal What = "signal" // Name, Occurrence, Output
	Tick   What = "tick"   // time has passed

	Cancel   What = "cancel"   // turn back. Reason
	Recall   What = "recall"   // of a child that is done: its parent turned back. Reason
	Retry    What = "retry"    // a run that waits or is stuck; all such runs if Step is empty
	Complete What = "complete" // a run, by hand. Output
	Skip     What = "skip"     // a run, or its undo. Reason
	Pause    What = "pause"    // no step starts; running steps finish
	Resume   What = "resume"
)

// Event is something that happened to a saga.
type Event struct {
	What             What
	Step, Occurrence string
	Attempt          int // the one that failed; 0 means any
	// Sends is the number of the message that a refusal answers; 0 means any. A success always counts.
	Sends     int
	Output    json.RawMessage // JSON
	Memo      json.RawMessage // JSON
	Reason    string
	Permanent bool
	Stick     bool          // of Failed: an operator must decide, because the run may have taken effect
	With      []Member      // of Stick: others that may have taken effect with it, in order
	Later     time.Duration // above 0: the time until the next attempt
	// Passing means that Failed or UndoFailed is due to a transient error, such as a deadlock. The attempt
	// is retried after the waits of the policy, and does not count.
	Passing     bool
	Until       time.Time // of Sent: for a Wait, the end of the wait; for a Lock, the next check
	Name        string    // of a signal
	Skip        bool
	Occurrences []string // distinct, not empty texts
}

// Outcome is the result of an event.
type Outcome string

// Outcomes. After Taken and Early the new state is to be stored; after the others nothing has changed, and a
// transaction that depends on the event is to be rolled back.
const (
	Taken      Outcome = "taken"
	Early      Outcome = "early"    // a signal is stored for its step, which has not begun
	Full       Outcome = "full"     // the same, but MaxEarly signals are stored already
	Repeat     Outcome = "repeat"   // the saga is in this state already
	NotWaiting Outcome = "late"     // the saga took another way
	TooLate    Outcome = "too late" // the pivot is done, or the saga has ended, so it cannot turn back
	Runs       Outcome = "runs"     // the step cannot be skipped: its child or call may have an effect
	Unknown    Outcome = "unknown"  // no such step, occurrence or signal exists
	// TooLarge means that its data would leave too little room in the state; see Large.
	TooLarge Outcome = "too large"
)

// Changed reports whether the state must be stored.
func (o Outcome) Changed() bool { return o == Taken || o == Early }

// Verb is the kind of an action.
type Verb string

// The actions, and the events that answer them.
const (
	// DecideStep calls the step's condition and occurrences. Answered by Decided or Failed.
	DecideStep Verb = "decide"
	// RunStep runs a step: a Do in a transaction; the intent of a Call or, if Sent is set, its request; the
	// sending of a command; the start of a child; the function of a Wait for a time; the queueing of a
	// Lock, or its check. Answered by Sent, Succeeded, Rejected or Failed.
	RunStep Verb = "run"
	// SettleStep finds out, after the saga turned back, whether a step took effect: it uses up the key of a
	// call, cancels a child, or removes a Lock from its queue. Answered as RunStep is.
	SettleStep Verb = "settle"
	// UndoStep is answered by UndoSent, UndoDone or UndoFailed.
	UndoStep Verb = "undo"
	// Finish means that the saga is final. Its waiters are to be notified.
	Finish Verb = "finish"
	// Alarm means that an operator must look at the saga. Reason.
	Alarm Verb = "alarm"
)

// Action is to be performed. All fields together identify an action of a step. A state that is advanced
// twice, or an engine that takes over, may ask for an action in progress.
type Action struct {
	Verb             Verb
	Step, Occurrence string
	Attempt          int // 1 is the first, also after Retry
	// Sends is how often a message was sent before. With Step and Occurrence it identifies a message.
	Sends   int
	Sent    bool
	Crashes int  // above 0: it crashed its process, and nothing else should run at the same time
	Stuck   bool // of an Alarm: the run waits for an operator. Otherwise the saga continues
	Reason  string
}
