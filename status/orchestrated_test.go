package status_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/status"
	"github.com/skald-go/skald/store/memstore"
)

const trace = "4bf92f3577b34da6a3ce929d0e0e4736"

// office runs orchestrated sagas, step by step. Steps whose names are in broken fail.
type office struct {
	t      *testing.T
	db     *memstore.Store
	e      *saga.Engine[*memstore.Tx]
	d      *saga.Definition[string]
	broken map[string]error
}

func newOffice(t *testing.T) *office {
	t.Helper()
	o := &office{t: t, db: memstore.New(nil), broken: map[string]error{}}
	do := func(name string) func(context.Context, *memstore.Tx, saga.Run[string]) (string, error) {
		return func(_ context.Context, tx *memstore.Tx, r saga.Run[string]) (string, error) {
			return name, errors.Join(tx.Put(r.Key+" "+name, "done"), o.broken[name])
		}
	}
	undo := func(name string) func(context.Context, *memstore.Tx, saga.Run[string], string) error {
		return func(_ context.Context, tx *memstore.Tx, r saga.Run[string], _ string) error {
			return errors.Join(tx.Delete(r.Key+" "+name), o.broken["undo "+name])
		}
	}
	often := saga.Retry(saga.Policy{InitialInterval: time.Hour, MaxInterval: time.Hour})
	o.d = saga.New("order", &saga.Options[string]{Key: func(s string) string { return s }},
		saga.Do("hold", do("hold"), undo("hold")), saga.Do("look", do("look"), nil, saga.NoEffect()),
		saga.Wait[string]("approve", saga.Signal[bool]{Name: "approved"}, saga.Timeout(24*time.Hour)),
		saga.Do("charge", do("charge"), undo("charge"), often),
		saga.Do("ship", do("ship"), nil, saga.Pivot()), saga.Do("thank", do("thank"), nil))
	var err error
	if o.e, err = saga.NewEngine(o.db, &saga.EngineOptions{Logger: slog.New(slog.DiscardHandler)},
		o.d); err != nil {
		t.Fatal(err)
	}
	tx := o.db.BeginTx()
	ctx := skald.WithCause(t.Context(), skald.Message{ID: "m-1", Source: "/shop", CorrelationID: "c",
		TraceParent: "00-" + trace + "-00f067aa0ba902b7-01"})
	if _, err = saga.Bind(o.e, o.d).Start(ctx, tx, "o-1"); err == nil {
		err = tx.Commit()
	}
	if err != nil {
		t.Fatal(err)
	}
	o.work()
	return o
}

func (o *office) work() {
	o.t.Helper()
	for busy := true; busy; {
		var err error
		if busy, err = o.e.Step(o.t.Context()); err != nil {
			o.t.Fatal(err)
		}
	}
}

func (o *office) change(c operate.SagaChange) {
	o.t.Helper()
	r, err := operate.ChangeSagas(o.t.Context(), o.db, operate.SagaSelection{Key: "o-1"}, c,
		operate.Order{Author: "ann", Reason: "it has to be"})
	if err != nil || r.Done != 1 {
		o.t.Fatalf("%s: %+v, %v", c.Verb, r, err)
	}
	o.work()
}

func (o *office) approve() {
	o.change(operate.SagaChange{Verb: operate.SignalSaga, Signal: "approved", Data: []byte("true")})
}

// progress returns the saga and a short text: the outcomes of its steps, and then lists.
func (o *office) progress() (status.Saga, string) {
	o.t.Helper()
	a, err := status.Ask(o.t.Context(), o.db, "o-1", "--store @o.url")
	if err != nil || len(a.Sagas) != 1 {
		o.t.Fatalf("%+v, %v", a, err)
	}
	s := a.Sagas[0]
	text := s.Word()
	for i := range s.Steps {
		step := &s.Steps[i]
		text += fmt.Sprintf(" %s:%s", step.Name, step.Outcome)
		if step.At == nil || step.At.IsZero() || step.At.After(time.Now()) ||
			time.Since(*step.At) > time.Hour {
			o.t.Errorf("%s came to %s at %v", step.Name, step.Outcome, step.At)
		}
	}
	return s, text + fmt.Sprintf(" remains%v undo%v stays%v", s.Remaining, s.Undo, s.Stays)
}

func (o *office) must(want string) status.Saga {
	o.t.Helper()
	s, got := o.progress()
	if got != want {
		o.t.Errorf("the progress is\n%s\nwant\n%s", got, want)
	}
	return s
}

// explains checks that the text of Explain contains parts.
func (o *office) explains(parts ...string) {
	o.t.Helper()
	a, err := status.Ask(o.t.Context(), o.db, "o-1", "--store @o.url")
	if err != nil {
		o.t.Fatal(err)
	}
	text := strings.Join(status.Explain(&a, time.Now()), "\n")
	for _, part := range parts {
		if !strings.Contains(text, part) {
			o.t.Errorf("the explanation lacks %q:\n%s", part, text)
		}
	}
}

// TestOrchestrated checks that the answer has an orchestrated saga: its waits, its retries, the steps that it
// would undo, and the commands that unblock it.
func TestOrchestrated(t *testing.T) {
	o := newOffice(t)
	s := o.must(
		"running hold:done look:done approve:running remains[approve charge ship thank] undo[hold] stays[]")
	if w := s.Waiting; len(w) != 1 || w[0].Kind != operate.WaitSignal || w[0].After != "approve" ||
		w[0].For[0] != "approved" || w[0].Since == nil || w[0].Due == nil {
		t.Errorf("it waits for %+v", w)
	}
	if s.Style != operate.Orchestrated || s.Trace != trace || s.Name != "order" || s.Retrying != nil ||
		len(s.Commands) > 0 {
		t.Errorf("it is %+v", s)
	}
	o.explains("order o-1 has been running since", "approve waits for the signal approved, since",
		"for at most 24h0m0s from now", "Still to come: approve, charge, ship, thank",
		"If it fails, this is undone: hold.")

	o.broken["charge"] = errors.New("no route to the bank")
	o.approve()
	s = o.must("running hold:done look:done approve:done charge:running remains[charge ship thank] undo[hold] stays[]")
	if r := s.Retrying; r == nil || r.Step != "charge" || r.Attempt != 2 || r.Since == nil || r.Next == nil ||
		!strings.Contains(r.Error, "no route") {
		t.Errorf("it retries %+v", r)
	}
	o.explains("charge is retrying, attempt 2, failing since", ", next in 1h", "no route to the bank")

	delete(o.broken, "charge")
	o.broken["thank"] = skald.Permanent(errors.New("no van"))
	o.change(operate.SagaChange{Verb: operate.RetrySaga, Step: "charge"})
	s = o.must("running, stuck hold:done look:done approve:done charge:done ship:done thank:running remains[thank] undo[] stays[ship charge hold]")
	if fmt.Sprint(
		s.Commands) != "[skald saga retry --store @o.url --reason 'the cause is gone' -- order o-1]" ||
		!s.Steps[5].Stuck || !strings.Contains(s.Steps[5].Error, "no van") {
		t.Errorf("it is freed by %q: %+v", s.Commands, s.Steps[5])
	}
	o.explains("thank is stuck after it failed once, failing since",
		"remove the cause, and then run: skald saga retry",
		"This is never undone: ship, charge, hold.")

	o.change(operate.SagaChange{Verb: operate.PauseSaga})
	if s, _ = o.progress(); s.Word() != "running, stuck, paused" || len(s.Commands) != 2 ||
		!strings.HasPrefix(s.Commands[1], "skald saga resume") {
		t.Errorf("paused, it is %s, and freed by %q", s.Word(), s.Commands)
	}
	o.change(operate.SagaChange{Verb: operate.ResumeSaga})
	delete(o.broken, "thank")
	o.change(operate.SagaChange{Verb: operate.RetrySaga})
	s = o.must(
		"done hold:done look:done approve:done charge:done ship:done thank:done remains[] undo[] stays[]")
	if s.Ended == nil || s.Retrying != nil || len(s.Waiting)+len(s.Commands) > 0 {
		t.Errorf("done, it is %+v", s)
	}
	o.explains("order o-1 is done")
}

// TestOrchestratedBack checks the answer for a saga that turns back: the steps that are undone, the steps
// that are still to be undone, and an undo that fails.
func TestOrchestratedBack(t *testing.T) {
	o := newOffice(t)
	o.broken["ship"] = skald.Permanent(errors.New("no van"))
	o.broken["undo hold"] = skald.Permanent(errors.New("the shelf is gone"))
	o.approve()
	s := o.must("compensating, stuck hold:undoing look:done approve:done charge:undone ship:failed remains[hold] undo[hold] stays[]")
	if !strings.Contains(s.Why, "ship") || !strings.Contains(s.Why, "no van") || s.Retrying == nil ||
		s.Retrying.Step != "hold" || len(s.Commands) != 1 {
		t.Errorf("it is %+v", s)
	}
	o.explains("order o-1 failed, and its work is being undone.", "It turned back because",
		"Done and then undone: charge.", "Being undone now: hold.")
	delete(o.broken, "undo hold")
	o.change(operate.SagaChange{Verb: operate.RetrySaga})
	o.must(
		"compensated hold:undone look:done approve:done charge:undone ship:failed remains[] undo[] stays[]")
}

// TestOrchestratedElsewhere checks that the answer has the sagas of another service's engine under its name,
// and a link to each trace.
func TestOrchestratedElsewhere(t *testing.T) {
	o := newOffice(t)
	o.broken["charge"] = errors.New("no <route>")
	o.approve()
	other := httptest.NewServer(handler(t, o.db,
		status.Options{Service: "office", Store: "--store @office.url"}))
	defer other.Close()
	h := handler(t, tracked(t), status.Options{Service: "orders",
		Services: map[string]string{"office": other.URL}, TraceURL: "https://traces.example/{trace}?a=1&b"})
	code, a := answer(t, h, "o-1")
	if code != http.StatusOK || len(a.Sagas) != 2 || len(a.Silent) > 0 {
		t.Fatalf("%d: %+v", code, a)
	}
	by := map[string]status.Saga{}
	for _, s := range a.Sagas {
		by[s.Service+" "+s.Style] = s
	}
	if got := by["office orchestrated"]; got.TraceURL != "https://traces.example/"+trace+"?a=1&b" ||
		got.Retrying == nil || by["orders choreographed"].Steps == nil {
		t.Errorf("%+v", by)
	}
	_, text := get(t, h, "/o-1", "Accept", "text/html")
	for _, part := range []string{"<a href=\"https://traces.example/" + trace + "?a=1&amp;b\"",
		"<b>charge</b> is retrying, attempt 2", "no &lt;route&gt;", "<td>done</td>"} {
		if !strings.Contains(text, part) {
			t.Errorf("there is no %q in %s", part, text)
		}
	}
	for _, bad := range []string{"javascript:{trace}", "https://traces.example/", "{trace}",
		"https:///{trace}"} {
		if _, err := status.Handler(o.db, &status.Options{TraceURL: bad}); err == nil ||
			!strings.Contains(err.Error(), "{trace}") {
			t.Errorf("%s was taken for a template: %v", bad, err)
		}
	}
}

// TestExplainWithoutCommands explains a stuck and a paused saga of another service whose build returns no
// commands.
func TestExplainWithoutCommands(t *testing.T) {
	s := status.Saga{Service: "payment"}
	s.Name, s.Key, s.State, s.Stuck, s.Paused = "order", "o-1", "running", true, true
	lines := status.Explain(&status.Answer{Key: "o-1", Sagas: []status.Saga{s}}, time.Now())
	if text := strings.Join(lines, "\n"); strings.Count(text, "skald saga explain") != 2 {
		t.Error(text)
	}
}

// TestDeadlineOfAnOrchestratedSaga checks the text about the deadline of a saga and its consequence, also if
// it has passed after the pivot.
func TestDeadlineOfAnOrchestratedSaga(t *testing.T) {
	now := time.Now()
	o := &office{t: t, db: memstore.New(&memstore.Options{Now: func() time.Time { return now }})}
	do := func(context.Context, *memstore.Tx, saga.Run[string]) (bool, error) { return true, nil }
	d := saga.New("order", &saga.Options[string]{Key: func(s string) string { return s },
		Deadline: 10 * time.Minute}, saga.Wait[string]("approve", saga.Signal[bool]{Name: "approved"}),
		saga.Do("pay", do, nil, saga.Pivot()), saga.Wait[string]("fetch", saga.Signal[bool]{Name: "fetched"}))
	var err error
	quiet := &saga.EngineOptions{Logger: slog.New(slog.DiscardHandler)}
	if o.e, err = saga.NewEngine(o.db, quiet, d); err != nil {
		t.Fatal(err)
	}
	tx := o.db.BeginTx()
	if _, err = saga.Bind(o.e, d).Start(t.Context(), tx, "o-1"); err == nil {
		err = tx.Commit()
	}
	if err != nil {
		t.Fatal(err)
	}
	o.work()
	deadline := func(want string) {
		t.Helper()
		a, err := status.Ask(t.Context(), o.db, "o-1", "")
		if err != nil || len(a.Sagas) != 1 || a.Sagas[0].Due == nil {
			t.Fatalf("%+v, %v", a, err)
		}
		got := a.Sagas[0].Deadline(now)
		if at := a.Sagas[0].Due.UTC().Format(time.RFC3339); got != strings.ReplaceAll(want, "T", at) {
			t.Errorf("its deadline: %s, want %s", got, want)
		}
		text := strings.Join(status.Explain(&a, now), "\n")
		if !strings.Contains(text, "Its deadline: "+got) {
			t.Errorf("in plain words: %s", text)
		}
	}
	deadline("in 10m0s, at T: then it turns back, unless its pivot is done")
	now = now.Add(12 * time.Minute)
	deadline("was 2m0s ago, at T: no engine has run it since")
	now = now.Add(-12 * time.Minute)
	o.approve()
	deadline("in 10m0s, at T: its pivot is done, so it goes on")
	now = now.Add(12 * time.Minute)
	o.work()
	deadline("was 2m0s ago, at T: its pivot is done, so it goes on")
}
