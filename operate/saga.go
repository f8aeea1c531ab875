// This file lists and reads orchestrated sagas.

package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald/internal/saga/draw"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
)

// Saga is the state of an orchestrated saga. The JSON field names are stable.
type Saga struct {
	Name    string     `json:"name"`
	Key     string     `json:"key"`
	ID      string     `json:"id"`
	Status  string     `json:"status"` // one of SagaStatuses
	Stuck   bool       `json:"stuck,omitempty"`
	Paused  bool       `json:"paused,omitempty"`
	Step    string     `json:"step,omitempty"` // the current step, with its occurrence
	Error   string     `json:"error,omitempty"`
	Failed  int        `json:"failed,omitempty"` // failed attempts in a row
	Since   *time.Time `json:"since,omitempty"`  // the time of the first of these attempts
	Retry   *time.Time `json:"retry,omitempty"`
	Hash    string     `json:"hash"`
	Session string     `json:"session,omitempty"` // the engine that is running it
	Due     *time.Time `json:"due,omitempty"`
	Started time.Time  `json:"started"`
	Changed time.Time  `json:"changed"`
	Ended   *time.Time `json:"ended,omitempty"`
}

// SagaStatuses returns the statuses of a saga: running, compensating, done and compensated.
func SagaStatuses() []string {
	return []string{string(plan.Running), string(plan.Compensating), string(plan.Done),
		string(plan.Compensated)}
}

// SagaSelection selects orchestrated sagas. Zero fields select all.
type SagaSelection struct {
	Name   string `json:"name,omitempty"`
	Key    string `json:"key,omitempty"`
	ID     string `json:"id,omitempty"`
	Status string `json:"status,omitempty"` // one of SagaStatuses

	Stuck   bool `json:"stuck,omitempty"` // selects only stuck sagas
	Paused  bool `json:"paused,omitempty"`
	Failing bool `json:"failing,omitempty"`

	Step          string    `json:"step,omitempty"`  // the current step
	Error         string    `json:"error,omitempty"` // a text that the error contains
	StartedBefore time.Time `json:"started_before,omitzero"`
	StartedAfter  time.Time `json:"started_after,omitzero"`
	Limit         int       `json:"limit,omitempty"` // 0 means all
	// Live leaves out ended sagas, unless Status is set. ChangeSagas sets it, unless Key or ID is set.
	Live bool `json:"live,omitempty"`
	// All is required to change sagas if no other field selects.
	All bool `json:"all,omitempty"`
}

// Filtered reports whether a field other than Limit, Live and All is set.
func (s *SagaSelection) Filtered() bool {
	return s.Name+s.Key+s.ID+s.Status+s.Step+s.Error != "" || s.Stuck || s.Paused || s.Failing ||
		!s.StartedBefore.IsZero() || !s.StartedAfter.IsZero()
}

func (s *SagaSelection) query(light bool) (q store.SagaQuery, err error) {
	if s.Status != "" && !slices.Contains(SagaStatuses(), s.Status) {
		return q, &UsageError{Reason: fmt.Sprintf("a saga's status is one of %s, not %q",
			strings.Join(SagaStatuses(), ", "), s.Status)}
	}
	if s.Limit < 0 {
		return q, &UsageError{Reason: "a limit is the largest number of sagas, or 0 for all"}
	}
	q = store.SagaQuery{Name: s.Name, Key: s.Key, ID: s.ID, Stuck: s.Stuck, Paused: s.Paused,
		Failing: s.Failing, Step: s.Step, Error: s.Error,
		StartedBefore: s.StartedBefore, StartedAfter: s.StartedAfter, Light: light, Limit: pageSize}
	switch {
	case s.Status != "":
		q.Status = []string{s.Status}
	case s.Live:
		q.Status = []string{string(plan.Running), string(plan.Compensating)}
	}
	return q, nil
}

// Sagas lists the selected orchestrated sagas, ordered by name and key.
func Sagas(ctx context.Context, db store.Lister, s SagaSelection) (out []Saga, err error) {
	err = EachSaga(ctx, db, s, func(one Saga) { out = append(out, one) })
	return out, err
}

// EachSaga calls f with each selected orchestrated saga, ordered by name and key. It reads page by page.
func EachSaga(ctx context.Context, db store.Lister, s SagaSelection, f func(Saga)) error {
	return eachSaga(ctx, db, &s, true, func(one store.Saga) error {
		f(sagaOf(&one))
		return nil
	})
}

// SagaPage is a page of sagas, ordered by name and key.
type SagaPage struct {
	List []Saga
	// Next is the argument after for the next page. It is nil if this is the last page.
	Next *store.SagaRef
	// Scanned is the number of sagas that were read, if PageLimits.Scan ended the page. Otherwise it is 0.
	Scanned int
}

// SagasAfter reads a page of the selected sagas: the sagas that follow the saga of the argument after, or
// the first sagas if it is nil. It reads the store once.
func SagasAfter(ctx context.Context, db store.Lister, s SagaSelection, after *store.SagaRef,
	limits PageLimits) (page SagaPage, err error) {
	q, err := s.query(true)
	if err != nil {
		return page, err
	}
	q.After, q.Limit, q.Scan = after, limits.Limit+1, limits.Scan
	got, err := db.List(ctx, store.List{Sagas: &q})
	if err != nil {
		return page, err
	}
	for i := range got.Sagas[:min(limits.Limit, len(got.Sagas))] {
		page.List = append(page.List, sagaOf(&got.Sagas[i]))
	}
	switch {
	case len(got.Sagas) > limits.Limit:
		page.Next = new(sagarow.Ref(got.Sagas[limits.Limit-1]))
	case got.SagasTo != nil:
		page.Next, page.Scanned = got.SagasTo, limits.Scan
	}
	return page, nil
}

// lightPage is the number of sagas in one read that leaves out their states.
const lightPage = 5000

// eachSaga reads the selected sagas, page by page.
func eachSaga(ctx context.Context, db store.Lister, s *SagaSelection, light bool,
	f func(store.Saga) error) error {
	q, err := s.query(light)
	if err != nil {
		return err
	}
	if light {
		q.Limit = lightPage
	}
	if s.Limit > 0 {
		q.Limit = min(q.Limit, s.Limit)
	}
	for n := 0; ; {
		list, err := store.ListSagas(ctx, db, q)
		if err != nil {
			return err
		}
		if s.Limit > 0 {
			list = list[:min(len(list), s.Limit-n)]
		}
		for i := range list {
			n++
			if err := f(list[i]); err != nil {
				return err
			}
		}
		if len(list) < q.Limit || n == s.Limit {
			return nil
		}
		last := sagarow.Ref(list[len(list)-1])
		q.After = &last
	}
}

func sagaOf(s *store.Saga) Saga {
	return Saga{Name: s.Name, Key: s.Key, ID: s.ID, Status: s.Status, Stuck: s.Stuck,
		Paused: s.Paused && s.Ended.IsZero(), Step: s.Step, Error: s.Error,
		Failed: s.Failed, Since: timeOrNil(s.Since), Retry: timeOrNil(s.Retry), Hash: s.Hash,
		Session: s.Session, Due: timeOrNil(s.Due), Started: s.Started,
		Changed: s.Changed, Ended: timeOrNil(s.Ended)}
}

// SagaDetail is the full description of a saga. Not every user may read Input and the outputs of Runs.
type SagaDetail struct {
	Saga
	Why         string          `json:"why,omitempty"` // why it turned back
	Deadline    *time.Time      `json:"deadline,omitempty"`
	Parent      string          `json:"parent,omitempty"` // "NAME KEY" of the saga that started it as a step
	Correlation string          `json:"correlation,omitempty"`
	Input       json.RawMessage `json:"input,omitempty"`
	Runs        []SagaRun       `json:"runs"`            // the runs of steps, in the order of their begin
	Early       []string        `json:"early,omitempty"` // signals that arrived before their step began
}

// SagaRun is the state of one occurrence of a step.
type SagaRun struct {
	Step       string     `json:"step"`
	Occurrence string     `json:"occurrence,omitempty"`
	Phase      string     `json:"phase"`
	Stuck      bool       `json:"stuck,omitempty"`
	Attempts   int        `json:"attempts,omitempty"` // failed attempts
	Crashes    int        `json:"crashes,omitempty"`
	Due        *time.Time `json:"due,omitempty"`
	Error      string     `json:"error,omitempty"`
	// Failures are the last failed attempts of the step and of its undo, oldest first.
	Failures []StepFailure   `json:"failures,omitempty"`
	Output   json.RawMessage `json:"output,omitempty"`
}

// SagaRead is a saga with everything that its methods need to describe it. ReadSaga returns one.
type SagaRead struct {
	row      store.Saga
	state    plan.State
	plan     *plan.Plan // nil if no engine has stored its definition
	noEngine string     // the reason why no engine runs the saga; empty if an engine runs it

	children map[int]child  // the children that the saga waits for, by the index of the run
	places   []store.Hold   // places in line for entities: see holdsOf
	holders  []entityHolder // the holders of the entities that the saga waits for
}

// ReadSaga reads one saga, and the state of the children that it waits for. name may be empty if only one
// definition has a saga with this key.
func ReadSaga(ctx context.Context, db store.Lister, name, key string) (r SagaRead, err error) {
	if r, err = readRow(ctx, db, name, key); err == nil {
		err = r.readState()
	}
	if err == nil {
		err = r.readChildren(ctx, db)
	}
	if err == nil {
		r.places, err = holdsOf(ctx, db, &r.row, r.plan)
	}
	if err == nil {
		r.holders, err = entityHolders(ctx, db, r.places)
	}
	return r, err
}

// Detail returns the full description of the saga. If data is true, the description includes the input and
// the outputs.
func (r *SagaRead) Detail(data bool) (d SagaDetail) {
	s, st := r.row, r.state
	d = SagaDetail{Saga: sagaOf(&s), Deadline: timeOrNil(st.Deadline), Runs: []SagaRun{}}
	if st.Cause != nil {
		d.Why = causeText(st.Cause)
	}
	if o, err := sagarow.OriginOf(s); err == nil {
		if d.Correlation = o.Correlation; o.Parent != nil {
			d.Parent = o.Parent.Name + " " + o.Parent.Key
		}
	}
	for i := range st.Runs {
		one := &st.Runs[i]
		run := SagaRun{Step: one.Step, Occurrence: one.Occurrence, Phase: string(one.Phase), Stuck: one.Stuck,
			Attempts: one.Attempts, Crashes: one.Crashes,
			Due: timeOrNil(dueOf(r.plan, one)), Error: one.Error, Failures: stepFailures(&st, i)}
		if data {
			run.Output = one.Output
		}
		d.Runs = append(d.Runs, run)
	}
	for _, e := range st.Early {
		d.Early = append(d.Early, sagarow.StepName(e.Name, e.Occurrence))
	}
	if data && s.Input != "" {
		d.Input = json.RawMessage(s.Input)
	}
	return d
}

// causeText describes a cause in words.
func causeText(c *plan.Cause) string {
	text := map[plan.Why]string{plan.WhyRejected: "a step refused",
		plan.WhyFailed:   "a step failed permanently",
		plan.WhyDeadline: "its deadline passed", plan.WhyCancel: "it was cancelled",
		plan.WhyRecall: "its parent turned back"}[c.Why]
	text = cmp.Or(text, string(c.Why))
	if c.Step != "" {
		text += " (" + sagarow.StepName(c.Step, c.Occurrence) + ")"
	}
	if c.Reason != "" && c.Reason != text { // the reason of a recall is the same text
		text += ": " + strings.TrimSpace(c.Reason)
	}
	return text
}

// readRow reads one saga and its plan, without decoding the state. The plan is nil if the definition is not
// stored, for example because the saga ended long ago.
func readRow(ctx context.Context, db store.Lister, name, key string) (r SagaRead, err error) {
	list, err := store.ListSagas(ctx, db, store.SagaQuery{Name: name, Key: key, Limit: 2})
	switch {
	case err != nil:
		return r, err
	case len(list) == 0:
		return r, noSaga(name, key)
	case len(list) > 1:
		return r, several(key, list[0].Name, list[1].Name)
	}
	l, err := db.List(ctx, store.List{Definitions: true})
	if err != nil {
		return r, err
	}
	r.row = list[0]
	r.plan, r.noEngine = plansOf(l.Definitions)[r.row.Hash], whyNoEngine(&r.row, l.Definitions)
	return r, nil
}

func noSaga(name, key string) error {
	return &NoMatchError{Reason: fmt.Sprintf(
		"there is no saga %q in this database, or it ended and was deleted",
		strings.TrimSpace(name+" "+key))}
}

// readState decodes the state of the row.
func (r *SagaRead) readState() (err error) {
	deadline := time.Duration(0)
	if r.plan != nil {
		deadline = r.plan.Graph.Deadline
	}
	r.state, err = sagarow.StateOf(r.row, deadline)
	return err
}

// readPlans returns the definitions that engines have stored, by hash.
func readPlans(ctx context.Context, db store.Lister) (map[string]*plan.Plan, error) {
	l, err := db.List(ctx, store.List{Definitions: true})
	if err != nil {
		return nil, err
	}
	return plansOf(l.Definitions), nil
}

func plansOf(all []store.SagaDefinition) map[string]*plan.Plan {
	out := map[string]*plan.Plan{}
	for _, d := range all {
		f, err := plan.Read(strings.NewReader(d.Written))
		if err != nil {
			continue // a later version of Skald wrote it; here its sagas have an unknown definition
		}
		for _, w := range f.Definitions {
			out[w.Hash] = plan.New(w.Graph)
		}
	}
	return out
}

// DrawingForms returns the forms of a drawing: text, mermaid and svg.
func DrawingForms() []string { return []string{"text", "mermaid", "svg"} }

// Draw draws the saga's definition with the progress of the saga. form is one of DrawingForms. Draw returns a
// *NoMatchError if no engine has stored the definition.
func (r *SagaRead) Draw(form string) (string, error) {
	if r.plan == nil {
		return "", unknownDefinition(&r.row)
	}
	return drawGraph(form, r.plan.Graph, draw.Marks(r.state))
}

// Pictures draws the saga as two SVGs for a page: a broad one, and a tall one for narrow screens. It returns
// the same errors as Draw.
func (r *SagaRead) Pictures() (string, error) {
	broad, err := r.Draw("svg")
	if err != nil {
		return "", err
	}
	return broad + draw.TallSVG(r.plan.Graph, draw.Marks(r.state)), nil
}

// drawGraph draws a graph in one of DrawingForms. It returns a *UsageError for another form.
func drawGraph(form string, g plan.Graph, marks map[string]draw.Mark) (string, error) {
	switch form {
	case "text":
		return draw.Text(g, marks), nil
	case "mermaid":
		return draw.Mermaid(g, marks), nil
	case "svg":
		return draw.SVG(g, marks), nil
	}
	return "", &UsageError{Reason: fmt.Sprintf("a drawing is one of %s, not %q",
		strings.Join(DrawingForms(), ", "), form)}
}

func unknownDefinition(s *store.Saga) error {
	return &NoMatchError{
		Reason: fmt.Sprintf("the saga %s %q has the definition %s, which no engine has stored in this database: check that its engine runs", s.Name, s.Key, s.Hash)}
}
