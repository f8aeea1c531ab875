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
	Compensating Status = "compensating" // the steps that took effect are being undone
	Done         Status = "done"         // each step is done or skipped
	Compensated  Status = "compensated"  // all effects are undone, except those of steps with NoEffect
)

// Final reports whether a saga of this status has ended.
func (s Status) Final() bool { return s == Done || s == Compensated }

// Phase is the progress of one run of a step.
type Phase string

// The phases of a run.
const (
	Deciding Phase = "deciding" // before the result of its condition and occurrences
	Ready    Phase = "ready"    // to be run, or to be settled after the saga turned back
	Waiting  Phase = "waiting"  // for a reply, a signal, a time or a child
	IsDone   Phase = "done"
	Skipped  Phase = "skipped" // by its condition, its timeout or an operator
	Refused  Phase = "refused" // it ended without an effect
	Dropped  Phase = "dropped" // the saga turned back before the run took effect
	Undo     Phase = "undo"    // its undo is to be run
	Undoing  Phase = "undoing" // waiting for the reply to its undo
	Undone   Phase = "undone"
)

// State is the progress of one saga, as data for JSON. Advance never changes a state: it returns a new
// one.
type State struct {
	ID       string    `json:"id"`
	Status   Status    `json:"status"`
	Deadline time.Time `json:"deadline,omitzero"` // cleared once it has no effect any more
	Overdue  bool      `json:"overdue,omitempty"` // the deadline or a cancel came after the pivot
	Paused   bool      `json:"paused,omitempty"`
	Cause    *Cause    `json:"cause,omitempty"` // why it turned back
	// Runs are in the order in which they began. A step without a run has not begun.
	Runs  []Run  `json:"runs,omitempty"`
	Early []Data `json:"early,omitempty"` // signals whose steps have not begun
	// Ended are runs that may have taken effect before they begin, in a transaction that a function ended.
	// Each gets stuck when it begins, or when the saga turns back.
	Ended []Member `json:"ended,omitempty"`
	// Failures are the last failed attempts of all runs, oldest first. They are informative only.
	Failures []Failure `json:"failures,omitempty"`
}

// Member is a run, or its undo, in a transaction shared by several.
type Member struct {
	Step       string `json:"step"`
	Occurrence string `json:"occurrence,omitempty"`
	Undo       bool   `json:"undo,omitempty"`
}

// Cause is the reason why a saga turned back.
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
	// As is the permanent name, if it differs from Step: see Born.
	As         string `json:"as,omitempty"`
	Occurrence string `json:"occurrence,omitempty"` // of a step with occurrences; else ""
	Phase      Phase  `json:"phase"`
	// At is when it came to Phase, by the engine's clock. It is informative only.
	At time.Time `json:"at,omitzero"`
	// Sent means that an external effect was requested, and may have happened. In Undo it concerns the
	// undo.
	Sent bool `json:"sent,omitempty"`
	// Stuck means that its attempts are used up, and an operator must decide. A late reply still counts.
	Stuck bool `json:"stuck,omitempty"`
	// Unsure means that it is stuck because it may have taken effect, and only an operator can find out.
	// Nothing is undone before that.
	Unsure   bool `json:"unsure,omitempty"`
	Attempts int  `json:"attempts,omitempty"` // failed attempts in Phase
	Crashes  int  `json:"crashes,omitempty"`  // consecutive crashes of its process
	// Free are the failed attempts that did not count, because the error was transient.
	Free Free `json:"free,omitzero"`
	// Alone means that this attempt runs with nothing else of the saga, because the saga crashed a process
	// before.
	Alone bool `json:"alone,omitempty"`
	// Sends counts messages and requests, in either direction. It is never reset.
	Sends int `json:"sends,omitempty"`
	// Due is the time of the next attempt; in Waiting and Undoing, the end of the wait.
	Due   time.Time `json:"due,omitzero"`
	Error string    `json:"error,omitempty"` // of the last failure, at most 1 KiB

	Output json.RawMessage `json:"output,omitempty"` // nil if it is done without output
	Memo   json.RawMessage `json:"memo,omitempty"`   // the engine's data about the request

	dated Phase // the phase to which At belongs, during one Advance
}

// Free counts failed attempts that did not count against the limit.
type Free struct {
	Times int       `json:"times"`
	Since time.Time `json:"since"` // time of the first one, in whole seconds
}

// Born returns the permanent name of a run, even if a Mapping renamed its step. Ids of commands, keys of
// calls and origins of children are derived from it.
func (r Run) Born() string { return cmp.Or(r.As, r.Step) }

// born returns As for a run of step that begins now. It is not "" if a renamed run has the step's name.
func born(runs []Run, step string) (as string) {
	taken := func(name string) bool {
		return slices.ContainsFunc(runs, func(r Run) bool { return r.Step != step && r.Born() == name })
	}
	if !taken(step) {
		return ""
	}
	for as = step + "'"; taken(as); as += "'" {
	}
	return as
}

// Data is a signal that was received.
type Data struct {
	Name       string          `json:"name"`
	Occurrence string          `json:"occurrence,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
}

// The limits of a state.
const (
	MaxEarly = 64                        // signals that wait for their step
	MaxError = 1 << 10                   // bytes of a reason or an error; longer ones are cut
	MaxWait  = 10 * 366 * 24 * time.Hour // limit of a wait from now
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

// Next returns when the saga needs a Tick, or zero if it needs none.
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
