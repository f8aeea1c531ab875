// This file reads how sagas of both styles stand.

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

// A Saga is how an orchestrated saga stands: its names in JSON are stable.
type Saga struct {
	Name    string     `json:"name"`
	Key     string     `json:"key"`
	ID      string     `json:"id"`
	Status  string     `json:"status"` // one of SagaStatuses
	Stuck   bool       `json:"stuck,omitempty"`
	Paused  bool       `json:"paused,omitempty"`
	Step    string     `json:"step,omitempty"` // that it is at, with its occurrence
	Error   string     `json:"error,omitempty"`
	Failed  int        `json:"failed,omitempty"` // attempts in a row
	Since   *time.Time `json:"since,omitempty"`  // of the first of them
	Retry   *time.Time `json:"retry,omitempty"`
	Hash    string     `json:"hash"`
	Session string     `json:"session,omitempty"` // of the engine that has it in hand
	Due     *time.Time `json:"due,omitempty"`
	Started time.Time  `json:"started"`
	Changed time.Time  `json:"changed"`
	Ended   *time.Time `json:"ended,omitempty"`
}

// SagaStatuses are the words for which way a saga goes.
func SagaStatuses() []string {
	return []string{string(plan.Running), string(plan.Compensating), string(plan.Done),
		string(plan.Compensated)}
}

// A SagaSelection chooses among orchestrated sagas. Zero fields choose all.
type SagaSelection struct {
	Name   string `json:"name,omitempty"`
	Key    string `json:"key,omitempty"`
	ID     string `json:"id,omitempty"`
	Status string `json:"status,omitempty"` // one of SagaStatuses

	Stuck   bool `json:"stuck,omitempty"` // only those
	Paused  bool `json:"paused,omitempty"`
	Failing bool `json:"failing,omitempty"`

	Step          string    `json:"step,omitempty"`  // that they are at
	Error         string    `json:"error,omitempty"` // that their error contains
	StartedBefore time.Time `json:"started_before,omitzero"`
	StartedAfter  time.Time `json:"started_after,omitzero"`
	Limit         int       `json:"limit,omitempty"` // 0: all
	// Live leaves ended sagas out, unless Status says which. A verb on many does that by itself.
	Live bool `json:"live,omitempty"`
	// All is required where a verb changes sagas and no other field chooses.
	All bool `json:"all,omitempty"`
}

// Filtered tells whether a field chooses.
func (s *SagaSelection) Filtered() bool {
	return s.Name+s.Key+s.ID+s.Status+s.Step+s.Error != "" || s.Stuck || s.Paused || s.Failing ||
		!s.StartedBefore.IsZero() || !s.StartedAfter.IsZero()
}

func (s *SagaSelection) query(light bool) (q store.SagaQuery, err error) {
	if s.Status != "" && !slices.Contains(SagaStatuses(), s.Status) {
		return q, &UsageError{What: fmt.Sprintf("a saga's status is one of %s, not %q",
			strings.Join(SagaStatuses(), ", "), s.Status)}
	}
	if s.Limit < 0 {
		return q, &UsageError{What: "a limit is how many sagas at most; 0: all"}
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

// Sagas lists orchestrated sagas by name and key.
func Sagas(ctx context.Context, db store.Lister, s SagaSelection) (out []Saga, err error) {
	err = eachSaga(ctx, db, &s, true, func(one store.Saga) error {
		out = append(out, sagaOf(&one))
		return nil
	})
	return out, err
}

// A SagaPage is some sagas, by name and key.
type SagaPage struct {
	List []Saga
	// Next is the saga after which the page that follows begins; nil: this is the last one.
	Next *store.SagaRef
	// Scanned is how many sagas were looked at, where that ended the page; else 0.
	Scanned int
}

// SagasAfter reads a page of the selected sagas, after one or from the first: one read of the store.
func SagasAfter(ctx context.Context, db store.Lister, s SagaSelection, after *store.SagaRef,
	most Peek) (page SagaPage, err error) {
	q, err := s.query(true)
	if err != nil {
		return page, err
	}
	q.After, q.Limit, q.Scan = after, most.Limit+1, most.Scan
	got, err := db.List(ctx, store.List{Sagas: &q})
	if err != nil {
		return page, err
	}
	for i := range got.Sagas[:min(most.Limit, len(got.Sagas))] {
		page.List = append(page.List, sagaOf(&got.Sagas[i]))
	}
	switch {
	case len(got.Sagas) > most.Limit:
		page.Next = new(sagarow.Ref(got.Sagas[most.Limit-1]))
	case got.SagasTo != nil:
		page.Next, page.Scanned = got.SagasTo, most.Scan
	}
	return page, nil
}

// lightPage is how many sagas are read at once without their states.
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
		Failed: s.Failed, Since: someTime(s.Since), Retry: someTime(s.Retry), Hash: s.Hash,
		Session: s.Session, Due: someTime(s.Due), Started: s.Started,
		Changed: s.Changed, Ended: someTime(s.Ended)}
}

// A SagaDetail is all that is known of a saga. Input and outputs may hold what is not everybody's to read.
type SagaDetail struct {
	Saga
	Why         string          `json:"why,omitempty"` // it turned back
	Deadline    *time.Time      `json:"deadline,omitempty"`
	Parent      string          `json:"parent,omitempty"` // "NAME KEY" of the saga whose step it is
	Correlation string          `json:"correlation,omitempty"`
	Input       json.RawMessage `json:"input,omitempty"`
	Runs        []SagaRun       `json:"runs"` // of steps, in the order in which they began
	Early       []string        `json:"early,omitempty"`
}

// A SagaRun is how one occurrence of a step stands.
type SagaRun struct {
	Step       string          `json:"step"`
	Occurrence string          `json:"occurrence,omitempty"`
	Phase      string          `json:"phase"`
	Stuck      bool            `json:"stuck,omitempty"`
	Attempts   int             `json:"attempts,omitempty"` // that failed
	Crashes    int             `json:"crashes,omitempty"`
	Due        *time.Time      `json:"due,omitempty"`
	Error      string          `json:"error,omitempty"`
	Output     json.RawMessage `json:"output,omitempty"`
}

// A SagaRead is a saga as it was when it was read.
type SagaRead struct {
	row   store.Saga
	state plan.State
	plan  *plan.Plan // nil: no engine has noted its definition
	alone string     // why no engine goes on with it; "": one does

	children map[int]child  // that it waits for, by their runs
	places   []store.Hold   // in lines for entities: see holdsOf
	holders  []entityHolder // of what it waits for
}

// ReadSaga reads one saga, and how its children stand that it waits for. The name may be empty where no other
// definition has a saga of the key.
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

// Detail is all that is known of the saga. Data: its input and outputs, too.
func (r *SagaRead) Detail(data bool) (d SagaDetail) {
	s, st := r.row, r.state
	d = SagaDetail{Saga: sagaOf(&s), Deadline: someTime(st.Deadline), Runs: []SagaRun{}}
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
			Due: someTime(dueOf(r.plan, one)), Error: one.Error}
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

// causeText is a cause in words.
func causeText(c *plan.Cause) string {
	text := map[plan.Why]string{plan.WhyRejected: "a step said no",
		plan.WhyFailed:   "a step failed for good",
		plan.WhyDeadline: "its deadline passed", plan.WhyCancel: "it was cancelled",
		plan.WhyRecall: "its parent turned back"}[c.Why]
	text = cmp.Or(text, string(c.Why))
	if c.Step != "" {
		text += " (" + sagarow.StepName(c.Step, c.Occurrence) + ")"
	}
	if c.Reason != "" && c.Reason != text { // the reason of a recall is just that
		text += ": " + strings.TrimSpace(c.Reason)
	}
	return text
}

// readRow reads one saga, but not what its state says. Of an ended one whose definition is not noted any more
// there is no plan.
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
	r.plan, r.alone = plansOf(l.Definitions)[r.row.Hash], noBuild(&r.row, l.Definitions)
	return r, nil
}

func noSaga(name, key string) error {
	return &NoneError{What: fmt.Sprintf(
		"there is no saga %q in this database, or it ended and is not kept any more",
		strings.TrimSpace(name+" "+key))}
}

// readState reads what the state of the row says.
func (r *SagaRead) readState() (err error) {
	deadline := time.Duration(0)
	if r.plan != nil {
		deadline = r.plan.Graph.Deadline
	}
	r.state, err = sagarow.StateOf(r.row, deadline)
	return err
}

// readPlans are the definitions that engines have noted, by hash.
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
			continue // of a later version of Skald; its sagas are then said to be of an unknown definition
		}
		for _, w := range f.Definitions {
			out[w.Hash] = plan.New(w.Graph)
		}
	}
	return out
}

// Forms are those in which SagaRead.Draw draws.
func Forms() []string { return []string{"text", "mermaid", "svg"} }

// Draw draws the saga's definition with how far the saga has come. It is a NoneError where no engine has
// noted the definition.
func (r *SagaRead) Draw(form string) (string, error) {
	st, p := r.state, r.plan
	if p == nil {
		return "", unknownDefinition(&r.row)
	}
	switch form {
	case "text":
		return draw.Text(p.Graph, draw.Marks(st)), nil
	case "mermaid":
		return draw.Mermaid(p.Graph, draw.Marks(st)), nil
	case "svg":
		return draw.SVG(p.Graph, draw.Marks(st)), nil
	}
	return "", noForm(form)
}

func unknownDefinition(s *store.Saga) error {
	return &NoneError{
		What: fmt.Sprintf("the saga %s %q has the definition %s, which no engine has noted in this database: does an engine run?", s.Name, s.Key, s.Hash)}
}
