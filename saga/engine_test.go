package saga_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// trip is the input of a saga. It lists the steps that fail, and how.
type trip struct {
	ID   string            `json:"id"`
	Fail map[string]string `json:"fail,omitempty"` // by step: reject, permanent, panic, once
}

// ledger returns a step that writes a line, and whose undo deletes the line.
func ledger(name string, opts ...saga.Option) *saga.Step[trip, string] {
	do := func(_ context.Context, tx tx, r saga.Run[trip]) (string, error) {
		if err := tx.Put(r.Key+" "+name, "done"); err != nil {
			return "", err
		}
		switch r.In.Fail[name] {
		case "reject":
			return "", skald.Reject(errors.New("no"))
		case "permanent":
			return "", skald.Permanent(errors.New("never"))
		case "panic":
			panic("oh")
		case "once":
			if r.Attempt == 1 {
				return "", errors.New("not this time")
			}
		}
		return name + " of " + r.Key, nil
	}
	undo := func(_ context.Context, tx tx, r saga.Run[trip], out string) error {
		if out != name+" of "+r.Key {
			return fmt.Errorf("the undo of %s got %q", name, out)
		}
		if r.In.Fail["undo "+name] == "once" && r.Attempt == 1 {
			return errors.New("not this time")
		}
		return tx.Delete(r.Key + " " + name)
	}
	return saga.Do(name, do, undo,
		append([]saga.Option{saga.Retry(saga.Policy{Attempts: 3, InitialInterval: time.Millisecond}),
			saga.RetryUndo(saga.Policy{InitialInterval: time.Millisecond})}, opts...)...)
}

func tripKey(t trip) string { return t.ID }

func trips() *saga.Definition[trip] {
	return saga.New("trip", &saga.Options[trip]{Key: tripKey, Deadline: time.Hour}, ledger("flight"),
		ledger("hotel"), ledger("car"))
}

func engineOf(t *testing.T, db *memstore.Store, defs ...saga.Defined) *saga.Engine[tx] {
	t.Helper()
	e, err := saga.NewEngine(db, &saga.EngineOptions{Logger: slog.New(slog.NewTextHandler(t.Output(), nil))},
		defs...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func running(t *testing.T, e *saga.Engine[tx]) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func begin[In any](t *testing.T, db *memstore.Store, e *saga.Engine[tx], d *saga.Definition[In],
	in In) saga.Started {
	t.Helper()
	tx := db.BeginTx()
	s, err := saga.Bind(e, d).Start(t.Context(), tx, in)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	return s
}

// await waits for the end, for at most five minutes.
func await[In any](t *testing.T, e *saga.Engine[tx], d *saga.Definition[In], key string) saga.End {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	end, err := saga.Bind(e, d).Await(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	return end
}

func left(db *memstore.Store, key string) (n int) {
	for k := range db.User() {
		if strings.HasPrefix(k, key+" ") {
			n++
		}
	}
	return n
}

// TestDo: each kind of failure ends with all steps or with none.
func TestDo(t *testing.T) {
	db, d := memstore.New(nil), trips()
	e := engineOf(t, db, d)
	running(t, e)
	for name, c := range map[string]struct {
		fail map[string]string
		done bool
		why  string
		step string
	}{
		"well":           {done: true},
		"rejected":       {fail: map[string]string{"car": "reject"}, why: "rejected", step: "car"},
		"rejected first": {fail: map[string]string{"flight": "reject"}, why: "rejected", step: "flight"},
		"permanent":      {fail: map[string]string{"hotel": "permanent"}, why: "failed", step: "hotel"},
		"panic":          {fail: map[string]string{"hotel": "panic"}, why: "failed", step: "hotel"},
		"once":           {fail: map[string]string{"hotel": "once", "car": "once"}, done: true},
		"undo fails once": {fail: map[string]string{"car": "reject", "undo hotel": "once"}, why: "rejected",
			step: "car"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begin(t, db, e, d, trip{name, c.fail})
			end := await(t, e, d, name)
			if end.Done != c.done || end.Why != c.why || end.Step != c.step {
				t.Errorf("it ended as %+v", end)
			}
			if n := left(db, name); n != map[bool]int{true: 3, false: 0}[c.done] {
				t.Errorf("%d rows are left: %v", n, db.User())
			}
			var out string
			if ok, err := end.Output("flight", "", &out); c.done &&
				(!ok || err != nil || out != "flight of "+name) {
				t.Errorf("the output of flight is %q, %v, %v", out, ok, err)
			}
		})
	}
}

// TestStart: a start commits with the caller's transaction. The same input finds the same saga; another
// input is refused.
func TestStart(t *testing.T) {
	db, d := memstore.New(nil), trips()
	e := engineOf(t, db, d) // it does not run
	tx := db.BeginTx()
	if _, err := saga.Bind(e, d).Start(t.Context(), tx, trip{ID: "gone"}); err != nil {
		t.Fatal(err)
	}
	_ = tx.Rollback()
	first := begin(t, db, e, d, trip{ID: "a"})
	if !first.New || first.ID == "" {
		t.Errorf("the first start: %+v", first)
	}
	if again := begin(t, db, e, d, trip{ID: "a"}); again.New || again.ID != first.ID {
		t.Errorf("it was started again: %+v", again)
	}
	tx = db.BeginTx()
	_, err := saga.Bind(e, d).Start(t.Context(), tx, trip{ID: "a", Fail: map[string]string{"car": "reject"}})
	var other *saga.OtherError
	if !errors.As(err, &other) || other.ID != first.ID || !strings.Contains(err.Error(), `{"id":"a"}`) ||
		!strings.Contains(err.Error(), `reject`) {
		t.Errorf("another input: %v", err)
	}
	_ = tx.Rollback()
	ss, err := store.ListSagas(t.Context(), db, store.SagaQuery{})
	if err != nil || len(ss) != 1 {
		t.Errorf("%d sagas, %v", len(ss), err)
	}
	running(t, engineOf(t, db, d)) // another engine finds the saga
	if end := await(t, e, d, "a"); !end.Done || end.ID != first.ID {
		t.Errorf("it ended as %+v", end)
	}
	if again := begin(t, db, e, d, trip{ID: "a"}); again.New || again.ID != first.ID {
		t.Errorf("it was started again after its end: %+v", again)
	}
	if _, err := saga.Bind(e, d).Await(t.Context(), "gone"); !errors.As(err, new(*saga.NoSagaError)) {
		t.Errorf("a saga that was rolled back: %v", err)
	}
}

// TestNewEngineRefuses: NewEngine reports all faults.
func TestNewEngineRefuses(t *testing.T) {
	other := saga.Do("x",
		func(context.Context, context.Context, saga.Run[trip]) (int, error) { return 0, nil }, nil,
		saga.NoEffect())
	bad := saga.New[trip]("bad", nil, ledger("a"))
	strange := saga.New("strange", &saga.Options[trip]{Key: tripKey}, other)
	_, err := saga.NewEngine(memstore.New(nil), nil, bad, strange, nil, trips(), trips())
	if err == nil {
		t.Fatal("no fault")
	}
	for _, want := range []string{`saga "bad"`, "Options.Key", `step "x" takes context.Context`,
		"definition 3 is nil", `two definitions have the name "trip"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not contain %q:\n%v", want, err)
		}
	}
}
