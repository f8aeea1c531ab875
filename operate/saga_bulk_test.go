package operate_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// Two that go on with one run at once change no saga twice.
func TestTwoGoOnWithARun(t *testing.T) {
	broken := false
	b := newSagaBench(t, &broken)
	b.start("k-1", "k-2")
	pause, all := operate.SagaChange{Verb: operate.PauseSaga}, operate.SagaSelection{Name: "order"}
	o := operate.Order{Author: "ann", Reason: "the bank is away", Run: "r"}
	rival := &rivalOfRun{Store: b.db, act: func() {
		if r, err := operate.ChangeSagas(t.Context(), b.db, all, pause, o); err != nil || r.Done != 2 {
			t.Errorf("%+v, %v", r, err)
		}
		hand := operate.Order{Author: "bob", Reason: "they may go on"}
		if _, err := operate.ChangeSagas(t.Context(), b.db, all, operate.SagaChange{Verb: operate.ResumeSaga},
			hand); err != nil {
			t.Error(err)
		}
	}}
	if r, err := operate.ChangeSagas(t.Context(), rival, all, pause, o); r.Done != 0 || len(r.Left) != 2 ||
		!strings.Contains(r.Left[0].Why, "another process that continues the run") {
		t.Errorf("%+v, %v", r, err)
	}
	if list, err := operate.Sagas(t.Context(), b.db, operate.SagaSelection{Paused: true}); err != nil ||
		len(list) != 0 {
		t.Errorf("paused again: %+v, %v", list, err)
	}
}

// Of two that typed the same at once the second one did nothing: the end of the run still says what the run
// did in all.
func TestTwoBeginTheSameRun(t *testing.T) {
	broken := false
	b := newSagaBench(t, &broken)
	b.start("k-1", "k-2")
	pause, all := operate.SagaChange{Verb: operate.PauseSaga}, operate.SagaSelection{Name: "order"}
	o := operate.Order{Author: "ann", Reason: "the bank is away"}
	rival := &rivalOfRun{Store: b.db, act: func() {
		if r, err := operate.RunSagas(t.Context(), b.db, "r", all, pause, o); err != nil || r.Done != 2 {
			t.Errorf("%+v, %v", r, err)
		}
	}}
	partly := new(operate.PartialError)
	if r, err := operate.RunSagas(t.Context(), rival, "r", all, pause, o); !errors.As(err, &partly) ||
		r.Done != 0 || len(r.Left) != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := operate.ReadRun(t.Context(), b.db, "r"); err != nil || r.Done != 2 ||
		r.Ended != "2 of 2 sagas" {
		t.Errorf("%+v, %v", r, err)
	}
}

// A rivalOfRun acts before the first change of a saga.
type rivalOfRun struct {
	*memstore.Store
	act func()
}

func (r *rivalOfRun) Apply(ctx context.Context, es ...store.Effect) ([]bool, error) {
	if act := r.act; act != nil && es[0].Saga != nil {
		r.act = nil
		act()
	}
	return r.Store.Apply(ctx, es...)
}

// A verb on many sagas is a run: it says how far it is, goes on where it was interrupted with what it was
// asked for, changes no saga twice, and ends. After that the same name is another run.
func TestRunOnManySagas(t *testing.T) {
	broken := false
	b := newSagaBench(t, &broken)
	b.start("k-1", "k-2", "k-3")
	pause := operate.SagaChange{Verb: operate.PauseSaga}
	o := operate.Order{Author: "ann", Reason: "the bank is away"}
	ctx, stop := context.WithCancel(t.Context())
	o.Progress = func(done, _ int) {
		if done == 2 {
			stop()
		}
	}
	if _, err := operate.RunSagas(ctx, b.db, "pause", operate.SagaSelection{Name: "order"}, pause,
		o); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	r, err := operate.ReadRun(t.Context(), b.db, "pause")
	if err != nil || r.Request.Of != 3 || r.Done != 2 || r.Stopped == "" || r.Ended != "" {
		t.Fatalf("%+v, %v", r, err)
	}
	hand := operate.Order{Author: "bob", Reason: "this one may go on"}
	if _, err := operate.ChangeSagas(t.Context(), b.db, operate.SagaSelection{Key: "k-1"},
		operate.SagaChange{Verb: operate.ResumeSaga}, hand); err != nil {
		t.Fatal(err)
	}
	b.start("later")
	o.Progress = nil
	report, err := operate.RunSagas(t.Context(), b.db, "pause", operate.SagaSelection{Name: "order"}, pause,
		o)
	if err != nil || report.Before != 2 || report.Done != 1 || report.Run != "pause" {
		t.Fatalf("%+v, %v", report, err)
	}
	paused := func() string {
		t.Helper()
		list, err := operate.Sagas(t.Context(), b.db, operate.SagaSelection{Paused: true})
		if err != nil {
			t.Fatal(err)
		}
		keys := make([]string, len(list))
		for i := range list {
			keys[i] = list[i].Key
		}
		return strings.Join(keys, " ")
	}
	if got := paused(); got != "k-2 k-3" {
		t.Errorf("paused are %s", got)
	}
	if r, err = operate.ReadRun(t.Context(), b.db, "pause"); err != nil || r.Done != 3 ||
		r.Ended != "3 of 3 sagas" {
		t.Errorf("%+v, %v", r, err)
	}
	report, err = operate.RunSagas(t.Context(), b.db, "pause", operate.SagaSelection{Name: "order"}, pause, o)
	if partly := new(operate.PartialError); !errors.As(err, &partly) || report.Run != "pause-2" ||
		report.Done != 2 || paused() != "k-1 k-2 k-3 later" {
		t.Errorf("another run: %+v, %v, paused are %s", report, err, paused())
	}
}

// Whoever says no, and a dry run, begin no run.
func TestRunThatDoesNotBegin(t *testing.T) {
	broken := false
	b := newSagaBench(t, &broken)
	b.start("k-1")
	no := errors.New("no")
	o := operate.Order{Author: "ann", Reason: "why", Confirm: func(context.Context, int) error { return no }}
	cancel := operate.SagaChange{Verb: operate.CancelSaga}
	if _, err := operate.RunSagas(t.Context(), b.db, "cancel", operate.SagaSelection{Name: "order"}, cancel,
		o); !errors.Is(err, no) {
		t.Error(err)
	}
	if r, err := operate.RunSagas(t.Context(), b.db, "cancel", operate.SagaSelection{Name: "order"}, cancel,
		operate.Order{DryRun: true}); err != nil || r.Done != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := operate.RunSagas(t.Context(), b.db, "cancel", operate.SagaSelection{}, cancel,
		operate.Order{Author: "ann", Reason: "why"}); err == nil {
		t.Error("none is selected, and all were meant")
	}
	if r, err := operate.ReadRun(t.Context(), b.db, "cancel"); err == nil {
		t.Errorf("it began: %+v", r)
	}
}

// A page ends at its limit, and whoever reads all gets all.
func TestSagasByLimit(t *testing.T) {
	broken := false
	b := newSagaBench(t, &broken)
	b.start("k-1", "k-2", "k-3")
	for limit, want := range map[int]int{0: 3, 1: 1, 3: 3, 4: 3} {
		if list, err := operate.Sagas(t.Context(), b.db, operate.SagaSelection{Limit: limit}); err != nil ||
			len(list) != want {
			t.Errorf("at most %d: %d, %v", limit, len(list), err)
		}
	}
	usage := new(operate.UsageError)
	if _, err := operate.Sagas(t.Context(), b.db, operate.SagaSelection{Limit: -1}); !errors.As(err, &usage) {
		t.Errorf("at most -1: %v", err)
	}
}

// A call of an engine whose answer is lost is named, with the command to settle it, until it is known.
func TestUnknownCallOfASaga(t *testing.T) {
	lost, sent := errors.New("the connection was cut"), ""
	pay := saga.CallWith("pay", saga.Request[sagaTx, string, int, string]{
		At:     call.NewProvider("bank", nil),
		Intent: func(context.Context, sagaTx, saga.Run[string]) (int, error) { return 100, nil },
		Do:     func(_ context.Context, _ int, key string) (string, error) { sent = key; return "", lost },
		LookUp: func(context.Context, int, string) (string, bool, error) { return "", false, lost },
	}, nil, saga.Pivot(), saga.Retry(saga.Policy{InitialInterval: time.Hour, MaxInterval: time.Hour}))
	d := saga.New("order", &saga.Options[string]{Key: func(s string) string { return s }}, pay)
	db := memstore.New(nil)
	e, err := saga.NewEngine(db, &saga.EngineOptions{Logger: slog.New(slog.DiscardHandler)}, d)
	if err != nil {
		t.Fatal(err)
	}
	b := &sagaBench{t, db, e, d}
	b.start("k-1")
	list, err := operate.UnknownCalls(t.Context(), db, "--store @x", 10)
	if err != nil || len(list) != 1 || list[0].Saga != "order" || list[0].Step != "pay" ||
		list[0].Attempts != 1 || list[0].Outside != sent || sent == "" ||
		list[0].Commands[1] != "skald saga complete --store @x --step pay --data '…' --reason 'done at the provider' -- order k-1" {
		t.Fatalf("%+v, %v", list, err)
	}
	c := operate.SagaChange{Verb: operate.CompleteSaga, Step: "pay", Data: []byte(`"receipt"`)}
	if _, err := operate.ChangeSagas(t.Context(), db, operate.SagaSelection{Key: "k-1"}, c,
		operate.Order{Author: "ann", Reason: "it was done"}); err != nil {
		t.Fatal(err)
	}
	if list, err = operate.UnknownCalls(t.Context(), db, "", 10); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}
