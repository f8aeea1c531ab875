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

// A SagaVerb is what an operator can do with orchestrated sagas.
type SagaVerb string

// Verbs.
const (
	// a step that waits or is stuck is tried now, with all its attempts; without Step, all that are stuck
	RetrySaga    SagaVerb = "retry"
	CompleteSaga SagaVerb = "complete" // a step counts as done, with Data as its output
	SkipSaga     SagaVerb = "skip"     // a step counts as passed, or its undo as done
	CancelSaga   SagaVerb = "cancel"   // it turns back
	PauseSaga    SagaVerb = "pause"    // nothing is begun any more
	ResumeSaga   SagaVerb = "resume"
	SignalSaga   SagaVerb = "signal" // Signal comes, with Data
)

// SagaVerbs are all of them.
func SagaVerbs() []SagaVerb {
	return []SagaVerb{RetrySaga, CompleteSaga, SkipSaga, CancelSaga, PauseSaga, ResumeSaga, SignalSaga}
}

// A SagaChange is a verb with what belongs to it.
type SagaChange struct {
	Verb       SagaVerb `json:"verb"`
	Step       string   `json:"step,omitempty"`       // of retry, complete and skip
	Occurrence string   `json:"occurrence,omitempty"` // of those, and of signal
	Signal     string   `json:"signal,omitempty"`     // of signal
	// Data, of complete and signal, is JSON of the type of the step's output, or of the signal: else the saga
	// is left. Without a value it is null; only for a type without fields it may be left out.
	Data json.RawMessage `json:"data,omitempty"`
}

// checkChange is a UsageError where a part that the verb needs is missing.
func checkChange(c *SagaChange) error {
	switch {
	case !slices.Contains(SagaVerbs(), c.Verb):
		return &UsageError{What: fmt.Sprintf("%q is no verb of sagas", c.Verb)}
	case c.Step == "" && (c.Verb == CompleteSaga || c.Verb == SkipSaga):
		return &UsageError{What: fmt.Sprintf("%s which step?", c.Verb)}
	case c.Signal == "" && c.Verb == SignalSaga:
		return &UsageError{What: "which signal?"}
	case c.Data != nil && !json.Valid(c.Data):
		return &UsageError{What: `the data is no JSON: a text is given in quotes, as --data '"sent"'`}
	case fingerprint.CheckJSON(c.Data) != nil:
		return &UsageError{What: "the data: " + fingerprint.ErrNotText.Error()}
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

// A SagaKeeper is what ChangeSagas asks of a store.
type SagaKeeper interface {
	store.Lister
	Applier
	RunReader
	Outage(err error) bool
}

// A SagaReport tells also why sagas were left as they are.
type SagaReport struct {
	Report
	Left   []LeftSaga
	Run    string // of RunSagas
	Before int    // changed before, by the same run
}

// A LeftSaga was selected, and not changed.
type LeftSaga struct {
	Name string `json:"name"`
	Key  string `json:"key"`
	Why  string `json:"why"`
	// Unfit: what was asked for does not fit its definition. First: it is so already, or somebody else writes
	// it. Else it stands in another way: it has ended, say.
	Unfit bool `json:"unfit,omitempty"`
	First bool `json:"first,omitempty"`
}

// ChangeSagas does c to each selected saga, each in a transaction with its audit, under the guard of its
// version: what the engine writes at the same time comes before it or after it. One that a step holds, or
// that the store refuses, is left, and the others are changed. Those that have ended are not selected, unless
// a key, an id or a status says so. A key without a definition or an id means one saga: it is a UsageError
// where sagas of several definitions have it. With a *PartlyError the report is valid, too.
func ChangeSagas(ctx context.Context, db SagaKeeper, s SagaSelection, c SagaChange,
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
	// No verb applies to a saga that has ended: whoever names one is told so.
	s.Live = s.Live || s.Key == "" && s.ID == ""
	if o.DryRun {
		return trySagas(ctx, db, &s, &c, &o)
	}
	done := &changed{db: db, run: o.Run, ids: map[string]bool{}}
	if err := done.read(ctx); err != nil {
		return r, err
	}
	r.Before = len(done.ids)
	var all []store.Saga
	only := single{of: &s, run: o.Run}
	if err := eachSaga(ctx, db, &s, true, func(one store.Saga) error {
		if err := only.also(&one); err != nil {
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
		return r, s.none()
	}
	r.Selected = len(all)
	switch err := confirm(ctx, &o, len(all)); {
	case errors.Is(err, store.ErrBusy): // so the run could not even be noted: all rows of it are in one file
		for i := range all {
			r.Left = append(r.Left, held(&all[i]))
		}
		return r, c.partly(&r)
	case err != nil:
		return r, err
	}
	err = (&bulk{db: db, c: &c, o: &o, done: done, report: &r}).all(ctx, all)
	if err == nil {
		err = c.partly(&r)
	}
	return r, err
}

// none is the error of a verb on no saga.
func (s *SagaSelection) none() error {
	switch {
	case s.Key != "":
		return noSaga(s.Name, s.Key)
	case s.Live && s.Status == "":
		return &NoneError{What: "no saga is selected that has not ended"}
	}
	return &NoneError{What: "no saga is selected"}
}

// A single is the saga that a key alone means: of a parent and its child, which often share a key, a verb is
// about one. In a run a key is a filter, as each other field.
type single struct {
	of   *SagaSelection
	run  string
	name string // of the definition, once there is one
}

// also is an error where s is of another definition than those before.
func (o *single) also(s *store.Saga) error {
	if o.run != "" || o.of.Key == "" || o.of.Name != "" || o.of.ID != "" {
		return nil
	}
	if o.name != "" && o.name != s.Name {
		return several(s.Key, o.name, s.Name)
	}
	o.name = s.Name
	return nil
}

// several is the error of a key that does not say which saga is meant.
func several(key, name, other string) error {
	return &UsageError{What: fmt.Sprintf(
		"sagas of several definitions have the key %q: name one of them, %s or %s", key, name, other)}
}

// partly says that some were left.
func (c *SagaChange) partly(r *SagaReport) error {
	if r.Done == r.Selected {
		return nil
	}
	return &PartlyError{What: fmt.Sprintf("%s: %d of %d sagas were left as they are", c,
		r.Selected-r.Done, r.Selected)}
}

// whichSagas is the error of a change that selects no sagas.
func whichSagas() error {
	return &UsageError{What: "which sagas? Select some of them; or All, if all of them are meant"}
}

func outcomeText(out plan.Outcome) string {
	switch out {
	case plan.Late:
		return "it went another way"
	case plan.TooLate:
		return "it is too late to turn back: its pivot is passed, or it has ended"
	case plan.Runs:
		return "it may have taken effect, and nobody would undo it: cancel the saga, or count the step as done with complete"
	case plan.Full:
		return fmt.Sprintf("it keeps %d signals already whose steps have not begun", plan.MaxEarly)
	}
	return string(out)
}
