package operate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store/memstore"
)

type sagaTx = *memstore.Tx

// A bench is an engine that is stepped by hand.
type sagaBench struct {
	t  *testing.T
	db *memstore.Store
	e  *saga.Engine[sagaTx]
	d  *saga.Definition[string]
}

var goAhead = saga.Signal[string]{Name: "go"}

func newSagaBench(t *testing.T, broken *bool, opts ...saga.Option) *sagaBench {
	t.Helper()
	write := func(name string) func(context.Context, sagaTx, saga.Run[string]) (string, error) {
		return func(_ context.Context, tx sagaTx, r saga.Run[string]) (string, error) {
			if *broken && name == "b" {
				return "", skald.Permanent(errors.New("the table is gone"))
			}
			return name, tx.Put(r.Key+" "+name, "done")
		}
	}
	unwrite := func(name string) func(context.Context, sagaTx, saga.Run[string], string) error {
		return func(_ context.Context, tx sagaTx, r saga.Run[string], _ string) error {
			return tx.Delete(r.Key + " " + name)
		}
	}
	a := saga.Do("a", write("a"), unwrite("a"))
	wait := saga.Wait[string]("wait", goAhead)
	pivot := saga.Do("pivot", write("pivot"), nil, append([]saga.Option{saga.Pivot()}, opts...)...)
	b := saga.Do("b", write("b"), nil)
	d := saga.New("order", &saga.Options[string]{Key: func(s string) string { return s },
		Deadline: time.Hour}, a, wait, pivot, b)
	db := memstore.New(nil)
	e, err := saga.NewEngine(db, &saga.EngineOptions{Logger: slog.New(slog.DiscardHandler)}, d)
	if err != nil {
		t.Fatal(err)
	}
	return &sagaBench{t, db, e, d}
}

func (b *sagaBench) start(keys ...string) {
	b.t.Helper()
	for _, key := range keys {
		tx := b.db.BeginTx()
		if _, err := saga.Bind(b.e, b.d).Start(b.t.Context(), tx, key); err != nil {
			b.t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			b.t.Fatal(err)
		}
	}
	b.step()
}

func (b *sagaBench) step() {
	b.t.Helper()
	for range 100 {
		busy, err := b.e.Step(b.t.Context())
		if err != nil {
			b.t.Fatal(err)
		}
		if !busy {
			return
		}
	}
	b.t.Fatal("it never rests")
}

func (b *sagaBench) change(s operate.SagaSelection, c operate.SagaChange) (operate.SagaReport, error) {
	r, err := operate.ChangeSagas(b.t.Context(), b.db, s, c,
		operate.Order{Author: "ann", Reason: "it has to be"})
	if err == nil {
		b.step()
	}
	return r, err
}

func (b *sagaBench) must(key string, c operate.SagaChange) {
	b.t.Helper()
	if r, err := b.change(operate.SagaSelection{Name: "order", Key: key}, c); err != nil || r.Done != 1 {
		b.t.Fatalf("%s %s: %+v, %v", c.Verb, key, r, err)
	}
}

func (b *sagaBench) stands(key, want string) {
	b.t.Helper()
	ss, err := operate.Sagas(b.t.Context(), b.db, operate.SagaSelection{Key: key})
	if err != nil || len(ss) != 1 {
		b.t.Fatalf("%+v, %v", ss, err)
	}
	got := ss[0].Status
	if ss[0].Stuck {
		got += " stuck"
	}
	if ss[0].Paused {
		got += " paused"
	}
	if got = strings.TrimSpace(got + " " + ss[0].Step); got != want {
		b.t.Errorf("%s is %q, not %q: %s", key, got, want, ss[0].Error)
	}
}

func TestSagaVerbs(t *testing.T) {
	broken := true
	b := newSagaBench(t, &broken)
	b.start("go", "cancel", "pause", "complete", "skip")
	b.stands("go", "running wait")

	b.must("cancel", operate.SagaChange{Verb: operate.CancelSaga})
	b.stands("cancel", "compensated")
	b.must("pause", operate.SagaChange{Verb: operate.PauseSaga})
	b.must("pause", operate.SagaChange{Verb: operate.SignalSaga, Signal: "go",
		Data: json.RawMessage(`"yes"`)})
	b.stands("pause", "running paused pivot")
	b.must("complete", operate.SagaChange{Verb: operate.CompleteSaga, Step: "wait",
		Data: json.RawMessage(`"by hand"`)})
	b.stands("complete", "running stuck b")
	b.must("skip", operate.SagaChange{Verb: operate.SkipSaga, Step: "wait"})
	b.must("go", operate.SagaChange{Verb: operate.SignalSaga, Signal: "go", Data: json.RawMessage(`null`)})
	b.stands("go", "running stuck b")

	read, err := operate.ReadSaga(t.Context(), b.db, "order", "go")
	lines := read.Explain("")
	if text := strings.Join(lines, "\n"); err != nil ||
		!strings.Contains(text, "b is stuck, and waits for an operator. It failed once, last with: ") ||
		!strings.Contains(text, "It cannot turn back any more: its pivot is passed.") ||
		!strings.Contains(text, "the table is gone") {
		t.Errorf("explained: %s, %v", text, err)
	}
	if r, err := b.change(operate.SagaSelection{Key: "go"},
		operate.SagaChange{Verb: operate.CancelSaga}); !errors.As(err, new(*operate.PartialError)) ||
		len(r.Left) != 1 || !strings.Contains(r.Left[0].Why, "too late") {
		t.Errorf("a cancellation after the pivot: %+v, %v", r, err)
	}

	// In bulk: a dry run changes nothing, and then what was wrong is mended.
	broken = false
	dry, err := operate.ChangeSagas(t.Context(), b.db, operate.SagaSelection{Stuck: true},
		operate.SagaChange{Verb: operate.RetrySaga}, operate.Order{DryRun: true})
	if err != nil || dry.Done != 3 {
		t.Errorf("dry run: %+v, %v", dry, err)
	}
	if r, err := b.change(operate.SagaSelection{Stuck: true},
		operate.SagaChange{Verb: operate.RetrySaga}); err != nil || r.Done != 3 {
		t.Errorf("retry: %+v, %v", r, err)
	}
	for _, key := range []string{"go", "complete", "skip"} {
		b.stands(key, "done")
	}
	b.must("pause", operate.SagaChange{Verb: operate.ResumeSaga})
	b.stands("pause", "done")
	audits := b.db.AuditLog()
	if n := len(audits); n != 10 || audits[0].Action != "saga cancel" || audits[0].Author != "ann" ||
		audits[0].ID != "cancel" || audits[0].Consumer != "order" {
		t.Errorf("%d audits: %+v", n, audits)
	}
}

// A step that is skipped by hand may be the last one: the saga ends all the same.
func TestSagaEndsByHand(t *testing.T) {
	broken := true
	b := newSagaBench(t, &broken)
	b.start("a")
	b.must("a", operate.SagaChange{Verb: operate.SignalSaga, Signal: "go", Data: json.RawMessage(`"yes"`)})
	b.must("a", operate.SagaChange{Verb: operate.SkipSaga, Step: "b"})
	b.stands("a", "done")
	if end, err := saga.Bind(b.e, b.d).Await(t.Context(), "a"); err != nil || !end.Done {
		t.Errorf("%+v, %v", end, err)
	}
}

func TestSagaVerbsRefuse(t *testing.T) {
	broken := false
	b := newSagaBench(t, &broken)
	b.start("a")
	o := operate.Order{Author: "ann", Reason: "why"}
	for name, c := range map[string]struct {
		s    operate.SagaSelection
		c    operate.SagaChange
		o    operate.Order
		want string
	}{
		"no reason": {operate.SagaSelection{Key: "a"}, operate.SagaChange{Verb: operate.CancelSaga},
			operate.Order{Author: "ann"}, "a reason"},
		"which sagas": {operate.SagaSelection{}, operate.SagaChange{Verb: operate.CancelSaga}, o,
			"which sagas?"},
		"no step": {operate.SagaSelection{Key: "a"}, operate.SagaChange{Verb: operate.SkipSaga}, o,
			"which step?"},
		"no signal": {operate.SagaSelection{Key: "a"}, operate.SagaChange{Verb: operate.SignalSaga}, o,
			"which signal?"},
		"no JSON": {operate.SagaSelection{Key: "a"},
			operate.SagaChange{Verb: operate.CompleteSaga, Step: "wait", Data: []byte("x")}, o, "no JSON"},
		"no verb": {operate.SagaSelection{Key: "a"}, operate.SagaChange{Verb: "rewind"}, o, "no verb"},
		"none": {operate.SagaSelection{Key: "z"}, operate.SagaChange{Verb: operate.CancelSaga}, o,
			`there is no saga "z"`},
		"no status": {operate.SagaSelection{Status: "x"}, operate.SagaChange{Verb: operate.CancelSaga}, o,
			"one of running"},
	} {
		if _, err := operate.ChangeSagas(t.Context(), b.db, c.s, c.c, c.o); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(b.db.AuditLog()) != 0 {
		t.Error("something was changed")
	}
}

// What is read of a saga: its detail, its drawing, and what the next build makes of it.
func TestSagaRead(t *testing.T) {
	broken := false
	b := newSagaBench(t, &broken)
	b.start("a")
	read, err := operate.ReadSaga(t.Context(), b.db, "", "a")
	d := read.Detail(true)
	if err != nil || len(d.Runs) != 2 || string(d.Runs[0].Output) != `"a"` || string(d.Input) != `"a"` ||
		d.Runs[1].Phase != "waiting" {
		t.Errorf("%+v, %v", d, err)
	}
	for form, want := range map[string]string{"text": "waiting", "mermaid": "flowchart LR", "svg": "<svg"} {
		if text, err := read.Draw(form); err != nil || !strings.Contains(text, want) {
			t.Errorf("%s: %s, %v", form, text, err)
		}
	}
	if _, err := read.Draw("png"); err == nil {
		t.Error("png was drawn")
	}
	if _, err := operate.ReadSaga(t.Context(), b.db, "order", "z"); !errors.As(err,
		new(*operate.NoMatchError)) {
		t.Errorf("of none: %v", err)
	}
	var same, other bytes.Buffer
	if err := saga.Write(&same, b.d); err != nil {
		t.Fatal(err)
	}
	check, err := operate.CheckSagas(t.Context(), b.db, &same)
	if err != nil || len(check) != 1 || check[0].Sagas != 1 || check[0].Continue != 1 ||
		len(check[0].Changes) != 0 {
		t.Errorf("the same: %+v, %v", check, err)
	}
	gone := saga.New("order", &saga.Options[string]{Key: func(s string) string { return s }},
		saga.Until("later", func(saga.Run[string]) time.Time { return time.Now() }))
	if err := saga.Write(&other, gone); err != nil {
		t.Fatal(err)
	}
	check, err = operate.CheckSagas(t.Context(), b.db, &other)
	if err != nil || len(check) != 1 || check[0].Continue != 0 || len(check[0].Refused) != 1 ||
		!strings.Contains(fmt.Sprint(check[0].Changes), "it was removed") {
		t.Errorf("another: %+v, %v", check, err)
	}
}

// A wait has no retries: what is told of one whose signal does not come does not speak of any.
func TestExplainAWaitThatTimedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memstore.New(nil)
		d := saga.New("order", &saga.Options[string]{Key: func(s string) string { return s }},
			saga.Wait[string]("approve", goAhead, saga.Timeout(time.Minute)))
		e, err := saga.NewEngine(db, &saga.EngineOptions{Logger: slog.New(slog.DiscardHandler)}, d)
		if err != nil {
			t.Fatal(err)
		}
		tx := db.BeginTx()
		if _, err := saga.Bind(e, d).Start(t.Context(), tx, "a"); err != nil || tx.Commit() != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
		defer stop()
		if err := e.Run(ctx); err != nil {
			t.Fatal(err)
		}
		read, err := operate.ReadSaga(t.Context(), db, "order", "a")
		if err != nil {
			t.Fatal(err)
		}
		const want = "because a step failed permanently (approve): no signal go came within 1m0s."
		if text := strings.Join(read.Explain(""), "\n"); !strings.Contains(text, want) {
			t.Errorf("explained: %s", text)
		}
	})
}
