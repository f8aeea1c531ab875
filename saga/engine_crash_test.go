package saga_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// TestEndsItsProcess: a step that crashes its process is stuck after three crashes. The other sagas of the
// process continue.
func TestEndsItsProcess(t *testing.T) {
	now := time.Now()
	db := memstore.New(&memstore.Options{Now: func() time.Time { return now }})
	deaths := 0
	deadly := saga.Do("deadly", func(_ context.Context, tx tx, r saga.Run[trip]) (int, error) {
		if r.In.Fail["deadly"] != "" {
			deaths++
			runtime.Goexit()
		}
		return 0, tx.Put(r.Key+" deadly", "done")
	}, nil, saga.NoEffect())
	d := saga.New("d", &saga.Options[trip]{Key: tripKey}, ledger("a"), deadly)
	o := &saga.EngineOptions{Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }}
	starter, err := saga.NewEngine(db, o, d)
	if err != nil {
		t.Fatal(err)
	}
	begin(t, db, starter, d, trip{ID: "k", Fail: map[string]string{"deadly": "exit"}})
	begin(t, db, starter, d, trip{ID: "z"})
	for range 10 {
		turnOf(t, db.Session(), o, d)
		now = now.Add(time.Minute)
	}
	ss, err := store.ListSagas(t.Context(), db, store.SagaQuery{})
	if err != nil {
		t.Fatal(err)
	}
	if deaths != 4 { // once after a, in the same transaction
		t.Errorf("it ended its process %d times", deaths)
	}
	if s := ss[0]; !s.Stuck || s.Step != "deadly" || !strings.Contains(s.Error, "ended its process 3 times") {
		t.Errorf("the deadly one: %+v", s)
	}
	if s := ss[1]; s.Status != "done" {
		t.Errorf("the other one: %+v", s)
	}
}

// turnOf starts a process that claims due sagas and runs them to their end.
func turnOf(t *testing.T, process *memstore.Store, o *saga.EngineOptions, d saga.Defined) {
	t.Helper()
	e, err := saga.NewEngine(process, o, d)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err = e.Step(t.Context())
	}()
	<-done
	process.Kill()
	if err != nil {
		t.Fatal(err)
	}
}

// TestCrashCountsForTheRunningFunction: a crash counts for the function that ran, not for an earlier one that
// was not called, nor for one that was called before and failed.
func TestCrashCountsForTheRunningFunction(t *testing.T) {
	var deaths, asked, fails int
	die := func() { deaths++; runtime.Goexit() }
	deadly := saga.Do("deadly", func(context.Context, tx, saga.Run[trip]) (int, error) {
		die()
		return 0, nil
	}, nil, saga.NoEffect(), saga.AtStart())
	never := saga.When(func(saga.Run[trip]) bool { die(); return true })
	pay := saga.CallWith("pay", saga.Request[tx, trip, int, int]{At: call.NewProvider("bank", nil),
		Intent: func(context.Context, tx, saga.Run[trip]) (int, error) { return 7, nil },
		Do:     func(context.Context, int, string) (int, error) { asked++; return 0, nil },
	}, nil, saga.NoEffect(), saga.AtStart())
	flaky := saga.Do("flaky", func(context.Context, tx, saga.Run[trip]) (int, error) {
		fails++
		return 0, errors.New("not yet")
	}, nil, saga.NoEffect(), saga.AtStart(), saga.Retry(saga.Policy{Attempts: 1_000}))
	for name, c := range map[string]struct {
		steps []saga.StepOf[trip]
		stuck string
		rows  int
	}{
		"a condition beside a step": {[]saga.StepOf[trip]{ledger("a", saga.AtStart()),
			ledger("b", saga.AtStart(), never)}, "b", 1},
		"a condition behind a step": {[]saga.StepOf[trip]{ledger("a"), ledger("b", never)}, "b", 1},
		"a condition behind another": {[]saga.StepOf[trip]{ledger("a", saga.AtStart(),
			saga.When(func(saga.Run[trip]) bool { return true })),
			ledger("b", saga.AtStart(), never)}, "b", 1},
		"a step behind a call":         {[]saga.StepOf[trip]{pay, deadly}, "deadly", 0},
		"a step beside one that fails": {[]saga.StepOf[trip]{flaky, deadly}, "deadly", 0},
	} {
		t.Run(name, func(t *testing.T) {
			deaths, asked = 0, 0
			now := time.Now()
			clock := func() time.Time { return now }
			db := memstore.New(&memstore.Options{Now: clock})
			d := saga.New("d", &saga.Options[trip]{Key: tripKey}, c.steps...)
			o := &saga.EngineOptions{Logger: slog.New(slog.DiscardHandler), Now: clock}
			starter, err := saga.NewEngine(db, o, d)
			if err != nil {
				t.Fatal(err)
			}
			begin(t, db, starter, d, trip{ID: "k"})
			var is store.Saga
			for n := 0; n < 20 && !is.Stuck; n++ {
				turnOf(t, db.Session(), o, d)
				now = now.Add(time.Minute)
				ss, err := store.ListSagas(t.Context(), db, store.SagaQuery{})
				if err != nil {
					t.Fatal(err)
				}
				is = ss[0]
			}
			if !is.Stuck || is.Step != c.stuck || !strings.Contains(is.Error, "ended its process 3 times") {
				t.Errorf("its state is %+v", is.SagaStatus)
			}
			if n := left(db, "k"); n != c.rows || deaths < 3 || deaths > 4 || asked > 1 {
				t.Errorf("%d rows, %d deaths, %d requests", n, deaths, asked)
			}
		})
	}
}

// TestTooLarge: the size of a saga is limited. A step with too large an output fails, with both numbers in
// the error.
func TestTooLarge(t *testing.T) {
	text := strings.Repeat("x", 300<<10)
	big := func(name string) *saga.Step[trip, string] {
		return saga.Do(name, func(_ context.Context, tx tx, r saga.Run[trip]) (string, error) {
			return text, tx.Put(r.Key+" "+name, "done")
		},
			func(_ context.Context, tx tx, r saga.Run[trip], _ string) error {
				return tx.Delete(r.Key +
					" " + name)
			})
	}
	db := memstore.New(nil)
	d := saga.New("large", &saga.Options[trip]{Key: tripKey, MaxBytes: 500 << 10}, big("a"), big("b"),
		big("c"), big("d"))
	e := engineOf(t, db, d)
	running(t, e)
	begin(t, db, e, d, trip{ID: "a"})
	if end := await(t, e, d, "a"); end.Done || end.Step != "c" && end.Step != "d" ||
		!strings.Contains(end.Reason, "at most 921600") {
		t.Errorf("it ended as %+v", end.Reason)
	}
	if n := left(db, "a"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}
