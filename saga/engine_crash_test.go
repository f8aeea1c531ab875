package saga_test

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// A step that ends its process is stuck after three times, and what the process had in hand beside it goes
// on.
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
		process := db.Session()
		e, err := saga.NewEngine(process, o, d)
		if err != nil {
			t.Fatal(err)
		}
		died := true
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, err = e.Step(t.Context())
			died = false
		}()
		<-done
		process.Kill()
		if err != nil {
			t.Fatal(err)
		}
		if now = now.Add(time.Minute); died {
			continue
		}
	}
	ss, err := store.ListSagas(t.Context(), db, store.SagaQuery{})
	if err != nil {
		t.Fatal(err)
	}
	if deaths != 3 {
		t.Errorf("it ended its process %d times", deaths)
	}
	if s := ss[0]; !s.Stuck || s.Step != "deadly" || !strings.Contains(s.Error, "ended its process 3 times") {
		t.Errorf("the deadly one: %+v", s)
	}
	if s := ss[1]; s.Status != "done" {
		t.Errorf("the other one: %+v", s)
	}
}

// What a saga keeps is bounded: a step whose output is too much for it fails, with both numbers.
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
