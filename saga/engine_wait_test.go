package saga_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// TestWait: a signal by business key ends a wait, early or in time, in the caller's transaction or in its
// own.
func TestWait(t *testing.T) {
	db := memstore.New(nil)
	approved, weighed := saga.Signal[string]{Name: "approved"}, saga.Signal[int]{Name: "weighed"}
	approve := saga.Wait[trip]("approve", approved)
	weigh := saga.Wait[trip]("weigh", weighed,
		saga.Each(func(saga.Run[trip]) []string { return []string{"left", "right"} }))
	book := saga.Do("book", func(_ context.Context, tx tx, r saga.Run[trip]) (string, error) {
		all := weigh.Outputs(r)
		text := fmt.Sprintf("%s, %d and %d", approve.Output(r), all["left"], all["right"])
		return text, tx.Put(r.Key+" booked", text)
	}, nil, saga.NoEffect())
	d := saga.New("wait", &saga.Options[trip]{Key: tripKey}, approve, weigh, book)
	e := engineOf(t, db, d)
	running(t, e)
	sagas := saga.Bind(e, d)
	if _, err := sagas.Status(t.Context(), "a"); !errors.As(err, new(*saga.NoSagaError)) {
		t.Errorf("the status of no saga: %v", err)
	}
	if _, err := approved.Send(t.Context(), sagas, "a", "yes"); !errors.As(err, new(*saga.NoSagaError)) {
		t.Errorf("to no saga: %v", err)
	}
	begin(t, db, e, d, trip{ID: "a"})
	send := func(s saga.Signal[int], v int, want saga.SignalResult) {
		t.Helper()
		if got, err := s.Send(t.Context(), saga.Bind(e, d), "a", v); err != nil || got != want {
			t.Errorf("signal %d: %v, %v", v, got, err)
		}
	}
	send(weighed.For("left"), 1, saga.Early)
	send(weighed.For("left"), 2, saga.Duplicate)
	tx := db.BeginTx()
	if got, err := approved.Send(t.Context(), sagas.In(tx), "a", "no"); err != nil || got != saga.Taken {
		t.Errorf("in a transaction: %v, %v", got, err)
	}
	_ = tx.Rollback()
	if got, err := approved.Send(t.Context(), saga.Bind(e, d), "a", "yes"); err != nil || got != saga.Taken {
		t.Errorf("approved: %v, %v", got, err)
	}
	awaitStanding(t, db, "a", func(s store.Saga) bool { return s.Step == "weigh/right" })
	send(weighed.For("right"), 3, saga.Taken)
	if end := await(t, e, d, "a"); !end.Done || db.User()["a booked"] != "yes, 1 and 3" {
		t.Errorf("it ended as %+v with %v", end, db.User())
	}
	send(weighed.For("right"), 4, saga.Duplicate)
	if _, err := (saga.Signal[int]{Name: "approved"}).Send(t.Context(), saga.Bind(e, d), "a", 1); err == nil {
		t.Error("a signal of another type was taken")
	}
	if _, err := (saga.Signal[int]{Name: "other"}).Send(t.Context(), saga.Bind(e, d), "a", 1); err == nil {
		t.Error("a signal that no step waits for was taken")
	}
}

// TestSignalsWithoutAWait: a signal that no run can take is refused with the reason. A signal for an
// unknown occurrence is stored only until the occurrences are known, so it does not use up the room for
// others.
func TestSignalsWithoutAWait(t *testing.T) {
	db := memstore.New(nil)
	gate, plain, each := saga.Signal[bool]{Name: "gate"}, saga.Signal[bool]{Name: "plain"},
		saga.Signal[bool]{Name: "each"}
	d := saga.New("early", &saga.Options[trip]{Key: tripKey}, saga.Wait[trip]("g", gate),
		saga.Wait[trip]("e", each, saga.Each(func(saga.Run[trip]) []string { return []string{"x", "y"} })),
		saga.Wait[trip]("p", plain))
	e := engineOf(t, db, d)
	running(t, e)
	begin(t, db, e, d, trip{ID: "a"})
	send := func(s saga.Signal[bool], want saga.SignalResult, why string) {
		t.Helper()
		got, err := s.Send(t.Context(), saga.Bind(e, d), "a", true)
		if got != want || (err != nil) != (why != "") || err != nil && !strings.Contains(err.Error(), why) {
			t.Errorf("%q, %v", got, err)
		}
	}
	send(plain.For("typo"), "", `the signal plain came for the occurrence "typo", but its step p has no occurrences`)
	send(each, "",
		"the signal each came for no occurrence, but its step e is one for each occurrence, which are "+
			"not known yet")
	send(each.For("x"), saga.Early, "")
	for i := range plan.MaxEarly - 1 {
		send(each.For(fmt.Sprint(i)), saga.Early, "")
	}
	send(plain, saga.Full, "")
	send(gate, saga.Taken, "")
	awaitStanding(t, db, "a", func(s store.Saga) bool { return s.Step == "e/y" })
	send(each.For("7"), "", `the signal each came for the occurrence "7", but its step e has the occurrences x, y`)
	send(plain, saga.Early, "")
	send(each.For("y"), saga.Taken, "")
	if end := await(t, e, d, "a"); !end.Done {
		t.Errorf("it ended as %+v", end)
	}
}

// TestTimes: a wait for a time ends. A signal that does not come fails or skips its step. A deadline turns
// the saga back.
func TestTimes(t *testing.T) {
	never := saga.Signal[string]{Name: "never"}
	soon := saga.Until("soon",
		func(saga.Run[trip]) time.Time { return time.Now().Add(20 * time.Millisecond) })
	for name, c := range map[string]struct {
		d    *saga.Definition[trip]
		done bool
		why  string
	}{
		"until": {saga.New("s", &saga.Options[trip]{Key: tripKey}, ledger("a"), soon, ledger("b")), true, ""},
		"lapses": {saga.New("s", &saga.Options[trip]{Key: tripKey}, ledger("a"),
			saga.Wait[trip]("wait", never, saga.Timeout(10*time.Millisecond),
				saga.SkipOnTimeout()), ledger("b")),
			true, ""},
		"fails": {saga.New("s", &saga.Options[trip]{Key: tripKey}, ledger("a"),
			saga.Wait[trip]("wait", never, saga.Timeout(10*time.Millisecond)), ledger("b")), false, "failed"},
		"deadline": {saga.New("s", &saga.Options[trip]{Key: tripKey, Deadline: 30 * time.Millisecond},
			ledger("a"),
			saga.Wait[trip]("wait", never), ledger("b")), false, "deadline"},
		"retry": {saga.New("s", &saga.Options[trip]{Key: tripKey, Deadline: 100 * time.Millisecond},
			saga.Do("a", func(context.Context, tx, saga.Run[trip]) (int, error) {
				return 0, skald.RetryAfter(time.Hour, errors.New("not now"))
			}, nil, saga.NoEffect())), false, "deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := memstore.New(nil)
			e := engineOf(t, db, c.d)
			running(t, e)
			begin(t, db, e, c.d, trip{ID: "a"})
			if end := await(t, e, c.d, "a"); end.Done != c.done || end.Why != c.why {
				t.Errorf("it ended as %+v", end)
			}
			if n := left(db, "a"); n != map[bool]int{true: 2, false: 0}[c.done] {
				t.Errorf("%d rows are left: %v", n, db.User())
			}
		})
	}
}

// TestChild: a child ends its parent's step, and is undone with it.
func TestChild(t *testing.T) {
	inner := saga.New("inner", &saga.Options[trip]{Key: tripKey}, ledger("x"), ledger("y"))
	of := func(r saga.Run[trip]) trip { return trip{r.Key + "-child", r.In.Fail} }
	middle := saga.New("middle", &saga.Options[trip]{Key: tripKey}, saga.Child("inner", inner, of))
	d := saga.New("outer", &saga.Options[trip]{Key: tripKey}, ledger("a"), saga.Child("middle", middle, of),
		ledger("b"))
	for name, c := range map[string]struct {
		fail map[string]string
		done bool
		step string
	}{
		"well":           {done: true},
		"child rejected": {fail: map[string]string{"y": "reject"}, step: "middle"},
		"undone":         {fail: map[string]string{"b": "reject"}, step: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := memstore.New(nil)
			e := engineOf(t, db, d)
			running(t, e)
			begin(t, db, e, d, trip{"o", c.fail})
			if end := await(t, e, d, "o"); end.Done != c.done || end.Step != c.step {
				t.Errorf("it ended as %+v", end)
			}
			if n := len(db.User()); n != map[bool]int{true: 4, false: 0}[c.done] {
				t.Errorf("%d rows are left: %v", n, db.User())
			}
			var out saga.ChildOutput
			if ok, err := await(t, e, d, "o").Output("middle", "", &out); c.done &&
				(!ok || err != nil || out.Key != "o-child") {
				t.Errorf("the output of the child is %+v, %v, %v", out, ok, err)
			}
		})
	}
}

// TestChildEndsBySignal: a child that ends by a signal ends its parent's step, too.
func TestChildEndsBySignal(t *testing.T) {
	go1 := saga.Signal[bool]{Name: "go"}
	inner := saga.New("inner", &saga.Options[trip]{Key: tripKey}, ledger("x"), saga.Wait[trip]("wait", go1))
	d := saga.New("outer", &saga.Options[trip]{Key: tripKey},
		saga.Child("inner", inner, func(r saga.Run[trip]) trip { return r.In }), ledger("b"))
	db := memstore.New(nil)
	e := engineOf(t, db, d)
	begin(t, db, e, d, trip{ID: "o"})
	settle(t, e)
	if _, err := go1.Send(t.Context(), saga.Bind(e, inner), "o", true); err != nil {
		t.Fatal(err)
	}
	settle(t, e)
	if ss, err := store.ListSagas(t.Context(), db, store.SagaQuery{}); err != nil || len(ss) != 2 ||
		ss[0].Status != "done" || ss[1].Status != "done" {
		t.Errorf("%v %v", ss, err)
	}
	if n := e.Health().Done; n != 2 || left(db, "o") != 2 {
		t.Errorf("%d sagas ended, with %d rows", n, left(db, "o"))
	}
}

// TestChildOfAnother: if another saga has the child's key, the step fails, and the saga turns back.
func TestChildOfAnother(t *testing.T) {
	inner := saga.New("inner", &saga.Options[trip]{Key: tripKey}, ledger("x"))
	d := saga.New("outer", &saga.Options[trip]{Key: tripKey}, ledger("a"),
		saga.Child("inner", inner, func(saga.Run[trip]) trip { return trip{ID: "c"} }))
	db := memstore.New(nil)
	e := engineOf(t, db, d)
	running(t, e)
	begin(t, db, e, inner, trip{ID: "c"})
	await(t, e, inner, "c")
	begin(t, db, e, d, trip{ID: "o"})
	if end := await(t, e, d, "o"); end.Done || end.Step != "inner" || end.Why != "failed" {
		t.Errorf("it ended as %+v", end)
	}
	if n := left(db, "o"); n != 0 {
		t.Errorf("%d rows are left: %v", n, db.User())
	}
}

// TestAwaitOfAnEndedSaga: Await returns at once for a saga that has ended in this process.
func TestAwaitOfAnEndedSaga(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, d := memstore.New(nil), trips()
		e := engineOf(t, db, d)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx) }()
		synctest.Wait()
		tx := db.BeginTx()
		for i := range 3 {
			if _, err := saga.Bind(e, d).Start(ctx, tx, trip{ID: fmt.Sprint("t-", i)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute) // of the fake clock
		began := time.Now()
		for i := range 3 {
			if end, err := saga.Bind(e, d).Await(ctx, fmt.Sprint("t-", i)); err != nil || !end.Done {
				t.Errorf("%+v, %v", end, err)
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("Await of three ended sagas took %v", took)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
