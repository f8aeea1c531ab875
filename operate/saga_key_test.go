package operate_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store/memstore"
)

// twins are two sagas of two definitions, which share the key k-1.
func twins(t *testing.T) *memstore.Store {
	t.Helper()
	db := memstore.New(nil)
	key := &saga.Options[string]{Key: func(s string) string { return s }}
	child := saga.New("child", key, saga.Wait[string]("wait", goAhead))
	parent := saga.New("parent", key, saga.Wait[string]("wait", goAhead))
	e, err := saga.NewEngine(db, nil, child, parent)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []*saga.Definition[string]{child, parent} {
		tx := db.BeginTx()
		if _, err := saga.Bind(e, d).Start(t.Context(), tx, "k-1"); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.Step(t.Context()); err != nil { // it notes the definitions
		t.Fatal(err)
	}
	return db
}

// A key that sagas of several definitions have does not say which is meant: nothing is changed, as nothing
// is shown. In a run it is a filter.
func TestKeyOfSeveralDefinitions(t *testing.T) {
	db := twins(t)
	pause := operate.SagaChange{Verb: operate.PauseSaga}
	o := operate.Order{Author: "ann", Reason: "the bank is away"}
	key := operate.SagaSelection{Key: "k-1"}
	for _, dry := range []bool{false, true} {
		o.DryRun = dry
		r, err := operate.ChangeSagas(t.Context(), db, key, pause, o)
		if usage := new(operate.UsageError); !errors.As(err, &usage) || r.Selected != 0 ||
			!strings.Contains(err.Error(), `key "k-1": name one of them, child or parent`) {
			t.Errorf("dry run %v: %+v, %v", dry, r, err)
		}
	}
	o.DryRun = false
	if list, err := operate.Sagas(t.Context(), db, operate.SagaSelection{Paused: true}); err != nil ||
		len(list) != 0 {
		t.Errorf("paused: %+v, %v", list, err)
	}
	named := operate.SagaSelection{Name: "parent", Key: "k-1"}
	if r, err := operate.ChangeSagas(t.Context(), db, named, pause, o); err != nil || r.Done != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	cancel := operate.SagaChange{Verb: operate.CancelSaga}
	if r, err := operate.RunSagas(t.Context(), db, "cancel", key, cancel, o); err != nil || r.Done != 2 {
		t.Errorf("as a run: %+v, %v", r, err)
	}
}

// A verb that leaves a saga says why: what it named, and what there is.
func TestWhyASagaIsLeft(t *testing.T) {
	broken := false
	b := newSagaBench(t, &broken)
	b.start("k-1")
	for want, c := range map[string]operate.SagaChange{
		`it has no step "x": its steps are a, wait, pivot, b`: {Verb: operate.SkipSaga, Step: "x"},
		"its step b has not begun":                            {Verb: operate.RetrySaga, Step: "b"},
		"a is done already":                                   {Verb: operate.SkipSaga, Step: "a"},
		"it has no stuck step: name a step that waits for its next attempt with --step": {
			Verb: operate.RetrySaga},
		"wait waits for its signal, so there is no attempt to repeat":                                          {Verb: operate.RetrySaga, Step: "wait"},
		`it has no signal "x": its signals are go`:                                                             {Verb: operate.SignalSaga, Signal: "x"},
		`the signal go came for the occurrence "x", but its step wait has no occurrences: send it without one`: {Verb: operate.SignalSaga, Signal: "go", Occurrence: "x"},
	} {
		r, err := operate.ChangeSagas(t.Context(), b.db, operate.SagaSelection{Key: "k-1"}, c,
			operate.Order{DryRun: true})
		if len(r.Left) != 1 || r.Left[0].Why != want {
			t.Errorf("%+v: %+v, %v, want %s", c, r, err, want)
		}
	}
	c := operate.SagaChange{Verb: operate.SignalSaga, Signal: "go", Data: []byte("sent")}
	if _, err := operate.ChangeSagas(t.Context(), b.db, operate.SagaSelection{Key: "k-1"}, c,
		operate.Order{DryRun: true}); err == nil || !strings.Contains(err.Error(), `--data '"sent"'`) {
		t.Error(err)
	}
}

// A parent that waits for its child says which it is, how that stands and fails, and what to type for more;
// also while the child is undone.
func TestExplainNamesTheChild(t *testing.T) {
	db, broken := memstore.New(nil), true
	byKey := &saga.Options[string]{Key: func(s string) string { return s }}
	wrap := saga.Do("wrap", func(context.Context, sagaTx, saga.Run[string]) (string, error) {
		if broken {
			return "", errors.New("no paper\nat all")
		}
		return "red", nil
	}, func(context.Context, sagaTx, saga.Run[string], string) error {
		return skald.Permanent(errors.New("it is glued"))
	}, saga.Retry(saga.Policy{InitialInterval: time.Hour, MaxInterval: time.Hour}))
	child := saga.New("wrapping", byKey, wrap)
	other := saga.New("other", byKey, saga.Wait[string]("wait", goAhead)) // has the child's key, too
	of := func(r saga.Run[string]) string { return r.Key + " inside" }
	parent := saga.New("gift", byKey, saga.Child("inside", child, of), saga.Wait[string]("wait", goAhead))
	e, err := saga.NewEngine(db, &saga.EngineOptions{Logger: slog.New(slog.DiscardHandler)}, parent, other)
	if err != nil {
		t.Fatal(err)
	}
	b := &sagaBench{t, db, e, other}
	b.start("g-1 inside")
	b.d = parent
	b.start("g-1")
	explains := func(want string) {
		t.Helper()
		read, err := operate.ReadSaga(t.Context(), db, "gift", "g-1")
		lines := read.Explain("--store @o.url")
		if text := strings.Join(lines, "\n"); err != nil || !strings.Contains(text, want) {
			t.Errorf("%s, %v: want %s", text, err, want)
		}
	}
	more := " More: skald saga explain --store @o.url -- wrapping 'g-1 inside'"
	explains(" Its child wrapping g-1 inside is running, at wrap. " +
		"That failed once, last with: no paper." + more)
	skip := operate.SagaChange{Verb: operate.SkipSaga, Step: "inside"}
	if r, err := b.change(operate.SagaSelection{Name: "gift", Key: "g-1"}, skip); len(r.Left) != 1 ||
		!strings.HasPrefix(r.Left[0].Why,
			"its child is running, and nothing would undo its steps: cancel that") {
		t.Errorf("a child that runs is skipped: %+v, %v", r, err)
	}
	broken = false
	retry := operate.SagaChange{Verb: operate.RetrySaga, Step: "wrap"}
	if _, err := b.change(operate.SagaSelection{Name: "wrapping", Key: "g-1 inside"}, retry); err != nil {
		t.Fatal(err)
	}
	if _, err := b.change(operate.SagaSelection{Name: "gift", Key: "g-1"},
		operate.SagaChange{Verb: operate.CancelSaga}); err != nil {
		t.Fatal(err)
	}
	explains("inside waits until its child is undone. Its child wrapping g-1 inside is compensating, stuck, " +
		"at wrap. That failed once, last with: permanent: it is glued." + more)
	ss, err := operate.ReadSagaProgress(t.Context(), db, "g-1", "")
	if err != nil || len(ss) != 1 || len(ss[0].Waiting) != 1 || ss[0].Waiting[0].Kind != operate.WaitChild {
		t.Errorf("it waits for %+v, %v", ss, err)
	}
	retry.Step = "inside"
	if r, err := b.change(operate.SagaSelection{Name: "gift", Key: "g-1"}, retry); len(r.Left) != 1 ||
		r.Left[0].Why != "inside waits until its child is undone, so there is no attempt to repeat" {
		t.Errorf("a wait for an undo is retried: %+v, %v", r, err)
	}
	read, err := operate.ReadSaga(t.Context(), db, "wrapping", "g-1 inside")
	if lines := read.Explain(""); err != nil ||
		!slices.Contains(lines, "It turned back because its parent turned back.") {
		t.Errorf("of the child it is said: %q, %v", lines, err)
	}

	// Whoever means to complete the step, and comes after it turned back, is told.
	complete := operate.SagaChange{Verb: operate.CompleteSaga, Step: "wrap", Data: json.RawMessage(`"red"`)}
	which := operate.SagaSelection{Name: "wrapping", Key: "g-1 inside"}
	if r, err := b.change(which, complete); len(r.Left) != 1 ||
		!strings.Contains(r.Left[0].Why, "wrap is being undone, and an undo has no output: omit --data") {
		t.Errorf("an undo is completed with data: %+v, %v", r, err)
	}
	complete.Data = nil
	if r, err := b.change(which, complete); err != nil || r.Done != 1 {
		t.Errorf("an undo is completed: %+v, %v", r, err)
	}
}

// A command that is not replied to is looked for at its participant: it is said how.
func TestExplainNamesWhereACommandIs(t *testing.T) {
	db := memstore.New(nil)
	event := func(name string) skald.Event[string] { return skald.Event[string]{Topic: "ship", Type: name} }
	byKey := &saga.Options[string]{Key: func(s string) string { return s }}
	d := saga.New("order", byKey, saga.Command("ship", event("ship"),
		func(r saga.Run[string]) string { return r.Key }, saga.Reply(event("shipped")), saga.Pivot()))
	e, err := saga.NewEngine(db, nil, d)
	if err != nil {
		t.Fatal(err)
	}
	b := &sagaBench{t, db, e, d}
	b.start("o 1")
	read, err := operate.ReadSaga(t.Context(), db, "order", "o 1")
	text := strings.Join(read.Explain(""), "\n")
	for _, want := range []string{"ship waits for a reply since 20",
		"To see why the reply is late, run at the service that replies: skald status --store '…' -- 'o 1'"} {
		if err != nil || !strings.Contains(text, want) {
			t.Errorf("%s, %v: want %s", text, err, want)
		}
	}
}
