package plan

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"
)

// A Status is which way a saga goes.
type Status string

// Statuses of a saga. The last two are final, but for Recall.
const (
	Running      Status = "running"
	Compensating Status = "compensating" // what took effect is being undone
	Done         Status = "done"         // each step is done or skipped
	Compensated  Status = "compensated"  // nothing that was done is left, but steps without effect
)

// Final tells whether a saga of this status is finished.
func (s Status) Final() bool { return s == Done || s == Compensated }

// A Phase is how one run of a step stands.
type Phase string

// Phases of a run.
const (
	Deciding Phase = "deciding" // its condition or its occurrences are asked
	Ready    Phase = "ready"    // to be run, or to be settled where the saga turned back
	Waiting  Phase = "waiting"  // for a reply, a signal, a time or a child
	IsDone   Phase = "done"
	Skipped  Phase = "skipped" // it counts as passed: its condition was false, or an operator said so
	Refused  Phase = "refused" // it ended without an effect
	Dropped  Phase = "dropped" // the saga turned back before it took effect
	Undo     Phase = "undo"    // its undo is to be run
	Undoing  Phase = "undoing" // for the reply to its undo
	Undone   Phase = "undone"
)

// A State is how far one saga has come. It is data, for JSON. Advance never changes one: it returns another.
type State struct {
	ID       string    `json:"id"`
	Status   Status    `json:"status"`
	Deadline time.Time `json:"deadline,omitzero"` // while it still counts
	Overdue  bool      `json:"overdue,omitempty"` // the deadline, or a cancel, came too late to turn back
	Paused   bool      `json:"paused,omitempty"`
	Cause    *Cause    `json:"cause,omitempty"` // why it turned back
	// Runs are in the order in which they began. A step without one has not begun.
	Runs  []Run  `json:"runs,omitempty"`
	Early []Data `json:"early,omitempty"` // signals whose steps have not begun
	// Ended are runs that may have taken effect before they begin, in a transaction that a function ended.
	// Each is stuck when it begins, or when the saga turns back.
	Ended []Member `json:"ended,omitempty"`
}

// Member is a run, or its undo, in a transaction that several share.
type Member struct {
	Step       string `json:"step"`
	Occurrence string `json:"occurrence,omitempty"`
	Undo       bool   `json:"undo,omitempty"`
}

// A Cause is why a saga turned back.
type Cause struct {
	Why        Why    `json:"why"`
	Step       string `json:"step,omitempty"`
	Occurrence string `json:"occurrence,omitempty"`
	Reason     string `json:"reason,omitempty"`
}

// Why tells causes apart.
type Why string

// Causes.
const (
	WhyRejected Why = "rejected" // a step said no
	WhyFailed   Why = "failed"   // a step failed for good: its attempts or its time are used up
	WhyDeadline Why = "deadline"
	WhyCancel   Why = "cancel"
	WhyRecall   Why = "recall" // the saga is a child that was done, and its parent turned back
)

// A Run is one occurrence of a step.
type Run struct {
	Step string `json:"step"`
	// the name that it has for life, where that is another one: see Born
	As         string `json:"as,omitempty"`
	Occurrence string `json:"occurrence,omitempty"` // of a step with occurrences; else ""
	Phase      Phase  `json:"phase"`
	// At is when it came to Phase, by the engine's clock. Nothing is decided by it.
	At time.Time `json:"at,omitzero"`
	// Sent: something outside was asked, so it may take effect, or have taken it. In Undo it is said of the
	// undo.
	Sent bool `json:"sent,omitempty"`
	// Stuck: its retries are used up, and an operator decides. A late reply still counts.
	Stuck bool `json:"stuck,omitempty"`
	// Unsure: it is stuck since it may have taken effect, and only an operator can tell. Nothing is undone
	// before
	Unsure   bool `json:"unsure,omitempty"`
	Attempts int  `json:"attempts,omitempty"` // failed ones, of what Phase says
	Crashes  int  `json:"crashes,omitempty"`  // how often in a row it ended its process
	// Free are the failed attempts that were not charged, since they failed by what may pass
	Free Free `json:"free,omitzero"`
	// Alone: something of the saga ended its process before, and this attempt begins with nothing beside it
	Alone bool `json:"alone,omitempty"`
	// how often something was sent, in either direction: never set back
	Sends int `json:"sends,omitempty"`
	// when it is tried again; in Waiting and Undoing: when its time is up
	Due   time.Time `json:"due,omitzero"`
	Error string    `json:"error,omitempty"` // of the last failure, at most 1 KiB

	Output json.RawMessage `json:"output,omitempty"` // nil where it is done without
	Memo   json.RawMessage `json:"memo,omitempty"`   // the engine's, of what was sent

	dated Phase // that At is of, within one Advance
}

// Free counts failed attempts that were not charged.
type Free struct {
	Times int       `json:"times"`
	Since time.Time `json:"since"` // of the first one, in whole seconds
}

// Born is the name that a run has for life, whatever a Mapping renames its step to. Ids of commands, keys of
// calls and the origins of children are made of it.
func (r Run) Born() string { return cmp.Or(r.As, r.Step) }

// born is As of a run of step that begins now: not "" where a run that was renamed has the step's name.
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

// Data is a signal that came.
type Data struct {
	Name       string          `json:"name"`
	Occurrence string          `json:"occurrence,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
}

// Limits of a state.
const (
	MaxEarly = 64                        // signals that may wait for their step
	MaxError = 1 << 10                   // bytes of a reason or an error; longer ones are cut
	MaxWait  = 10 * 366 * 24 * time.Hour // how far off a time may be
	crashes  = 3                         // a step that ended its process so often is stuck
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

// Stuck tells whether a run is stuck: an operator has to decide.
func (s State) Stuck() bool {
	for _, r := range s.Runs {
		if r.Stuck {
			return true
		}
	}
	return false
}

// Next is when the saga wants a Tick. Zero: not before another event.
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
