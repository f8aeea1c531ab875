package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/skald-go/skald/internal/fingerprint"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
)

// SagaVerb is a change that an operator can make to orchestrated sagas.
type SagaVerb string

// Values of SagaVerb.
const (
	// RetrySaga retries Step at once, and sets its attempts to zero. Step waits for its next attempt, or is
	// stuck. Without a Step, RetrySaga retries all stuck steps.
	RetrySaga    SagaVerb = "retry"
	CompleteSaga SagaVerb = "complete" // marks a step as done, with Data as its output
	SkipSaga     SagaVerb = "skip"     // marks a step as skipped, or its undo as done
	CancelSaga   SagaVerb = "cancel"   // turns the saga back
	PauseSaga    SagaVerb = "pause"    // begins no more steps, until ResumeSaga
	ResumeSaga   SagaVerb = "resume"
	SignalSaga   SagaVerb = "signal" // sends Signal, with Data
)

// SagaVerbs returns all verbs.
func SagaVerbs() []SagaVerb {
	return []SagaVerb{RetrySaga, CompleteSaga, SkipSaga, CancelSaga, PauseSaga, ResumeSaga, SignalSaga}
}

// SagaChange is a verb with its arguments.
type SagaChange struct {
	Verb       SagaVerb `json:"verb"`
	Step       string   `json:"step,omitempty"`       // for retry, complete and skip
	Occurrence string   `json:"occurrence,omitempty"` // for retry, complete, skip and signal
	Signal     string   `json:"signal,omitempty"`     // for signal
	// Data is the output of the step for complete, or the value of the signal, as JSON. A saga is left
	// unchanged if Data does not fit the type in its definition. JSON null means no value. Data may be nil
	// only for a type without fields.
	Data json.RawMessage `json:"data,omitempty"`
}

// checkChange returns a *UsageError if an argument that the verb needs is missing or invalid.
func checkChange(c *SagaChange) error {
	switch {
	case !slices.Contains(SagaVerbs(), c.Verb):
		return &UsageError{Reason: fmt.Sprintf("%q is no verb of sagas", c.Verb)}
	case c.Step == "" && (c.Verb == CompleteSaga || c.Verb == SkipSaga):
		return &UsageError{Reason: fmt.Sprintf("which step? Name the step to %s", c.Verb)}
	case c.Signal == "" && c.Verb == SignalSaga:
		return &UsageError{Reason: "which signal?"}
	case c.Data != nil && !json.Valid(c.Data):
		return &UsageError{Reason: `the data is no JSON: put a text into quotes, as --data '"sent"'`}
	case fingerprint.CheckJSON(c.Data) != nil:
		return &UsageError{Reason: "the data: " + fingerprint.ErrNotText.Error()}
	}
	return nil
}

func (c *SagaChange) event(o *Order) plan.Event {
	what := map[SagaVerb]plan.What{RetrySaga: plan.Retry, CompleteSaga: plan.Complete, SkipSaga: plan.Skip,
		CancelSaga: plan.Cancel,
		PauseSaga:  plan.Pause, ResumeSaga: plan.Resume, SignalSaga: plan.Signal}[c.Verb]
	e := plan.Event{What: what, Step: c.Step, Occurrence: c.Occurrence, Output: c.Data}
	if c.Verb != SignalSaga {
		e.Reason = strings.TrimSpace(o.Author + ": " + o.Reason)
	}
	e.Name = c.Signal
	return e
}

func (c *SagaChange) String() string {
	text := "saga " + string(c.Verb)
	if c.Signal != "" {
		text += " " + c.Signal
	}
	if c.Step != "" {
		text += " " + sagarow.StepName(c.Step, c.Occurrence)
	}
	return text
}

// SagaStore is the part of a store that ChangeSagas needs.
type SagaStore interface {
	store.Lister
	Applier
	RunReader
	Outage(err error) bool
}

// SagaReport counts the changed sagas, and lists the sagas that were left unchanged.
type SagaReport struct {
	Report
	Left   []LeftSaga
	Run    string // the ID that RunSagas or RunFlows used
	Before int    // changed by earlier calls of the same run
}

// LeftSaga is a selected saga that was not changed.
type LeftSaga struct {
	Name string `json:"name"`
	Key  string `json:"key"`
	Why  string `json:"why"`
	// Incompatible reports that the change does not fit the definition of the saga.
	Incompatible bool `json:"unfit,omitempty"`
	// Unneeded reports that the saga is in the requested state already, or that another process locks or
	// changes its row. If both Incompatible and Unneeded are false, there is another reason: for example, the
	// saga has ended.
	Unneeded bool `json:"first,omitempty"`
}

// ChangeSagas applies c to each selected saga, each in its own transaction with an audit. The transaction
// checks the version of the saga, so it does not overwrite a change by an engine. ChangeSagas leaves a saga
// unchanged if a running step locks its row or if the store refuses the change, and goes on with the others.
//
// Ended sagas are selected only if s has a key, an ID or a status. If s has a key, but neither a name nor an
// ID, and sagas of several definitions have this key, ChangeSagas returns a *UsageError. The report is also
// valid if the error is a *PartialError.
func ChangeSagas(ctx context.Context, db SagaStore, s SagaSelection, c SagaChange,
	o Order) (r SagaReport, err error) {
	if err := checkChange(&c); err != nil {
		return r, err
	}
	if err := checkOrder(&o); err != nil {
		return r, err
	}
	if !o.DryRun && !s.All && !s.Filtered() {
		return r, whichSagas()
	}
	// A caller that names an ended saga gets an error for it. A bulk change leaves it out.
	s.Live = s.Live || s.Key == "" && s.ID == ""
	if o.DryRun {
		return trySagas(ctx, db, &s, &c, &o)
	}
	done := &runChanges{db: db, run: o.Run, ids: map[string]bool{}}
	if err := done.read(ctx); err != nil {
		return r, err
	}
	r.Before = len(done.ids)
	var all []store.Saga
	only := single{of: &s, run: o.Run}
	if err := eachSaga(ctx, db, &s, true, func(one store.Saga) error {
		if err := only.check(&one); err != nil {
			return err
		}
		if !done.ids[one.ID] {
			all = append(all, one)
		}
		return nil
	}); err != nil {
		return r, err
	}
	if len(all) == 0 {
		return r, s.noMatch()
	}
	r.Selected = len(all)
	switch err := confirm(ctx, &o, len(all)); {
	case errors.Is(err, store.ErrBusy): // SQLite: a running step locks the file, so BeginRun failed
		for i := range all {
			r.Left = append(r.Left, lockedByOther(&all[i]))
		}
		return r, c.partly(&r)
	case err != nil:
		return r, err
	}
	err = (&bulk{db: db, c: &c, o: &o, done: done, report: &r}).changeAll(ctx, all)
	if err == nil {
		err = c.partly(&r)
	}
	return r, err
}

// noMatch returns the error for a selection without a saga.
func (s *SagaSelection) noMatch() error {
	switch {
	case s.Key != "":
		return noSaga(s.Name, s.Key)
	case s.Live && s.Status == "":
		return &NoMatchError{Reason: "no running saga is selected"}
	}
	return &NoMatchError{Reason: "no saga is selected"}
}

// single checks that a key alone selects sagas of only one definition. A parent and its child often have the
// same key, and the operator means one of them. In a run, a key may select sagas of several definitions.
type single struct {
	of   *SagaSelection
	run  string
	name string // the definition of the first saga
}

// check returns an error if s has another definition than the sagas before it.
func (o *single) check(s *store.Saga) error {
	if o.run != "" || o.of.Key == "" || o.of.Name != "" || o.of.ID != "" {
		return nil
	}
	if o.name != "" && o.name != s.Name {
		return several(s.Key, o.name, s.Name)
	}
	o.name = s.Name
	return nil
}

// several returns the error for a key that sagas of several definitions have.
func several(key, name, other string) error {
	return &UsageError{Reason: fmt.Sprintf(
		"sagas of several definitions have the key %q: name one of them, %s or %s", key, name, other)}
}

// partly returns a *PartialError if some sagas were left unchanged.
func (c *SagaChange) partly(r *SagaReport) error {
	if r.Done == r.Selected {
		return nil
	}
	return &PartialError{Reason: fmt.Sprintf("%s: %d of %d sagas were left unchanged", c,
		r.Selected-r.Done, r.Selected)}
}

// whichSagas returns the error for a change without a selection.
func whichSagas() error {
	return &UsageError{Reason: "which sagas? Select some, or set All to select all"}
}

func outcomeText(out plan.Outcome) string {
	switch out {
	case plan.NotWaiting:
		return "the saga took another path"
	case plan.TooLate:
		return "it is too late to turn back: its pivot is passed, or it has ended"
	case plan.Runs:
		return "it may have taken effect, and nothing would undo it: cancel the saga, or mark the step as done with complete"
	case plan.Full:
		return fmt.Sprintf("it already stores %d signals for steps that have not begun", plan.MaxEarly)
	}
	return string(out)
}
