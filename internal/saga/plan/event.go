package plan

import (
	"encoding/json"
	"time"
)

// A What tells events apart.
type What string

// Events. Those of the first block come from an engine that carries out an action, or from a participant's
// reply.
const (
	Decided What = "decided" // Skip, or Occurrences where the step has them
	// the request is stored, the command is written, the child is started: in the same commit. Memo, Until.
	// Again for a Call: a new Memo
	Sent      What = "sent"
	Succeeded What = "done"     // the step took effect. Output; Reason: and yet the saga has to turn back
	Rejected  What = "rejected" // the step took no effect and never will. Reason
	// this attempt. Reason, Memo; Permanent: no other one will do better; Later: it is not charged
	Failed     What = "failed"
	Turn       What = "turn"        // of a Lock that waits: it may be its turn
	Alone      What = "alone"       // the attempt begins, with nothing of the saga beside it; without Step: none
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

// An Event is something that happened to a saga.
type Event struct {
	What             What
	Step, Occurrence string
	Attempt          int // that failed; 0: whichever
	// of a reply that says no: which sending it answers; 0: whichever. One that says yes always counts
	Sends     int
	Output    json.RawMessage // JSON
	Memo      json.RawMessage // JSON
	Reason    string
	Permanent bool
	Stick     bool          // of Failed: leave it to an operator, since it may have taken effect
	With      []Member      // of Stick: others that may have taken effect with it, in their order
	Later     time.Duration // above 0: try again then
	// Passing, of Failed and UndoFailed: by what may pass, such as a deadlock. It is tried again with the
	// waits of the policy, and is not charged
	Passing     bool
	Until       time.Time // of Sent, for a Wait: when its time is up; for a Lock: when it looks again
	Name        string    // of a signal
	Skip        bool
	Occurrences []string // distinct, not empty texts
}

// An Outcome is what became of an event.
type Outcome string

// Outcomes. After Taken and Early the new state is to be stored; after the others nothing has changed, and a
// transaction that depends on the event is to be rolled back.
const (
	Taken   Outcome = "taken"
	Early   Outcome = "early"    // a signal whose step has not begun: it is kept for it
	Full    Outcome = "full"     // the same, and MaxEarly are kept already
	Repeat  Outcome = "repeat"   // it is so already
	Late    Outcome = "late"     // the saga went another way
	TooLate Outcome = "too late" // to turn back: the pivot is passed, or the saga has ended
	Runs    Outcome = "runs"     // the child of a step that is to be skipped: it is to be cancelled first
	Unknown Outcome = "unknown"  // there is no such step, occurrence or signal
	// TooLarge: its data would leave no room in the state for what may follow; see Large
	TooLarge Outcome = "too large"
)

// Changed tells whether the state is to be stored.
func (o Outcome) Changed() bool { return o == Taken || o == Early }

// A Verb tells actions apart.
type Verb string

// Actions.
const (
	// DecideStep: ask the step's condition and occurrences, and answer with Decided or Failed.
	DecideStep Verb = "decide"
	// RunStep: a Do in a transaction; a Call's intent, or where Sent is set its request; a command or a child
	// to be sent; the time of a Wait to be asked; a Lock to stand in line, or to look whether it is first.
	// Answered with Sent, Succeeded, Rejected or Failed.
	RunStep Verb = "run"
	// SettleStep: learn what became of a call, with its key used up, cancel a child, or have a Lock leave the
	// line. The saga turned back.
	// Answered as RunStep is.
	SettleStep Verb = "settle"
	// UndoStep: answered with UndoSent, UndoDone or UndoFailed.
	UndoStep Verb = "undo"
	// Finish: the saga is final. Whoever waits for it is to be told.
	Finish Verb = "finish"
	// Alarm: somebody has to look. Reason.
	Alarm Verb = "alarm"
)

// An Action is something to be done. Those with a step are known by all their fields: a state that is
// advanced twice, or an engine that takes over, may ask for one that is under way already.
type Action struct {
	Verb             Verb
	Step, Occurrence string
	Attempt          int // 1 is the first, also after Retry
	// how often something was sent before: with Step and Occurrence it tells messages apart
	Sends   int
	Sent    bool
	Crashes int  // above 0: it ended its process before, and nothing else should run beside it
	Stuck   bool // of an Alarm: the run waits for an operator. Else the saga goes on
	Reason  string
}
