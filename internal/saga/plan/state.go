package plan

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"
)

// Status is the direction of a saga.
type Status string

// The statuses of a saga. Done and Compensated are final, except for Recall.
const (
	Running      Status = "running"
	Compensating Status = "compensating" // the saga turned back: it undoes the steps that took effect
	Done         Status = "done"         // each step is done or skipped
	Compensated  Status = "compensated"  // all effects are undone, except those of steps with NoEffect
)

// Final reports whether a saga of this status has ended.
func (s Status) Final() bool { return s == Done || s == Compensated }

// Phase is the progress of one run of a step.
type Phase string

// The phases of a run.
const (
	Deciding Phase = "deciding" // its condition and occurrences are not computed yet
	Ready    Phase = "ready"    // the step must run, or be settled after the saga turned back
	Waiting  Phase = "waiting"  // the run waits for a reply, a signal, a time or a child
	IsDone   Phase = "done"
	Skipped  Phase = "skipped" // by its condition, its timeout or an operator
	Refused  Phase = "refused" // the run ended without an effect
	Dropped  Phase = "dropped" // the saga turned back before the run took effect
	Undo     Phase = "undo"    // the undo must run
	Undoing  Phase = "undoing" // the run waits for the reply to its undo
	Undone   Phase = "undone"
)

// State is the progress of one saga, as data for JSON. Advance never changes a state, but returns a new one.
type State struct {
	ID       string    `json:"id"`
	Status   Status    `json:"status"`
	Deadline time.Time `json:"deadline,omitzero"` // zero if there is none, or after it has passed
	Overdue  bool      `json:"overdue,omitempty"` // the deadline or a cancellation came after the pivot
	Paused   bool      `json:"paused,omitempty"`
	Cause    *Cause    `json:"cause,omitempty"` // why the saga turned back, or nil
	// Runs are in the order in which they began. A step without a run has not begun.
	Runs  []Run  `json:"runs,omitempty"`
	Early []Data `json:"early,omitempty"` // signals for steps that have not begun
	// Ended lists runs that may have taken effect before they begin, because a function ended the transaction
	// that they shared. Each run gets stuck when it begins, or when the saga turns back.
	Ended []Member `json:"ended,omitempty"`
	// Failures has the last failed attempts of all runs, oldest first. Decisions do not depend on them.
	Failures []Failure `json:"failures,omitempty"`
}

// Member is a run, or its undo, in a transaction that several runs share.
type Member struct {
	Step       string `json:"step"`
	Occurrence string `json:"occurrence,omitempty"`
	Undo       bool   `json:"undo,omitempty"`
}

// Cause is the reason for which a saga turned back.
type Cause struct {
	Why        Why    `json:"why"`
	Step       string `json:"step,omitempty"`
	Occurrence string `json:"occurrence,omitempty"`
	Reason     string `json:"reason,omitempty"`
}

// Why is the kind of a cause.
type Why string

// The kinds of causes.
const (
	WhyRejected Why = "rejected" // a step was rejected
	WhyFailed   Why = "failed"   // a step used up its attempts or its time, or failed permanently
	WhyDeadline Why = "deadline"
	WhyCancel   Why = "cancel"
	WhyRecall   Why = "recall" // the saga is a child that was done, and its parent turned back
)

// Run is one occurrence of a step.
type Run struct {
	Step string `json:"step"`
	// As is the permanent name of the run's step, if it differs from Step; see Born.
	As         string `json:"as,omitempty"`
	Occurrence string `json:"occurrence,omitempty"` // "" if the step has no occurrences
	Phase      Phase  `json:"phase"`
	// At is the time at which the run came to Phase, by the engine's clock. Decisions do not depend on it.
	At time.Time `json:"at,omitzero"`
	// Sent means that an external effect was requested, and may have happened. In the phases Undo and Undoing
	// this is the effect of the undo.
	Sent bool `json:"sent,omitempty"`
	// Stuck means that the attempts of the run are used up, and an operator must decide. A late reply still
	// counts.
	Stuck bool `json:"stuck,omitempty"`
	// Unsure means that the run is stuck because it may have taken effect. Only an operator can find out. No
	// undo runs before that.
	Unsure   bool `json:"unsure,omitempty"`
	Attempts int  `json:"attempts,omitempty"` // failed attempts in Phase
	Crashes  int  `json:"crashes,omitempty"`  // consecutive crashes of its engine's process
	// Free counts the failed attempts that did not count, because the error was transient.
	Free Free `json:"free,omitzero"`
	// Alone means that no other action of the saga runs during this attempt, because the saga crashed a
	// process before.
	Alone bool `json:"alone,omitempty"`
	// Sends counts the messages and requests of the step and its undo. It is never reset.
	Sends int `json:"sends,omitempty"`
	// Due is the time of the next attempt. In the phases Waiting and Undoing, Due is the end of the wait.
	Due   time.Time `json:"due,omitzero"`
	Error string    `json:"error,omitempty"` // error of the last failure, at most 1 KiB

	Output json.RawMessage `json:"output,omitempty"` // nil if the run is done without an output
	Memo   json.RawMessage `json:"memo,omitempty"`   // the engine's data about the request

	dated Phase // the phase to which At belongs; used only during an Advance
}

// Free counts failed attempts that do not count against the limit of the policy.
type Free struct {
	Times int       `json:"times"`
	Since time.Time `json:"since"` // time of the first one, in whole seconds
}

// Born returns the permanent name of the run's step. It does not change if a Mapping renames the step. Ids of
// commands, keys of calls and origins of children are derived from it.
func (r Run) Born() string { return cmp.Or(r.As, r.Step) }

// born returns Born for a run of step that begins now. The result is a new name if a renamed run of another
// step already has the name of the step, or else "".
func born(runs []Run, step string) (newName string) {
	taken := func(name string) bool {
		return slices.ContainsFunc(runs, func(r Run) bool { return r.Step != step && r.Born() == name })
	}
	if !taken(step) {
		return ""
	}
	for newName = step + "'"; taken(newName); newName += "'" {
	}
	return newName
}

// Data is a stored signal.
type Data struct {
	Name       string          `json:"name"`
	Occurrence string          `json:"occurrence,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
}

// Limits of a state.
const (
	MaxEarly = 64                        // number of stored signals
	MaxError = 1 << 10                   // bytes of a reason or an error; a longer text is cut
	MaxWait  = 10 * 366 * 24 * time.Hour // limit of a wait
	crashes  = 3                         // a step with so many consecutive crashes is stuck
)

// Run returns the run of a step and an occurrence.
func (s State) Run(step, occurrence string) (Run, bool) {
	for _, r := range s.Runs {
		if r.Step == step && r.Occurrence == occurrence {
			return r, true
		}
	}
	return Run{}, false
}

// Stuck reports whether a run is stuck, so that an operator must decide.
func (s State) Stuck() bool {
	for _, r := range s.Runs {
		if r.Stuck {
			return true
		}
	}
	return false
}

// Next returns the time at which the saga needs a Tick, or zero if it needs none.
func (s State) Next() time.Time {
	if s.Paused || s.Status.Final() {
		return time.Time{}
	}
	next := s.Deadline
	for _, r := range s.Runs {
		if !r.Stuck && !r.Due.IsZero() && (next.IsZero() || r.Due.Before(next)) {
			next = r.Due
		}
	}
	return next
}
