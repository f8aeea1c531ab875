package saga_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/internal/testlog"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// TestWaitsToRunAlone: a step that crashed its process twice waits for a slow step until it may run alone.
// Other sagas continue meanwhile, and a crash during the wait does not count for it.
func TestWaitsToRunAlone(t *testing.T) {
	t.Parallel()
	var shift, deaths, slow atomic.Int64
	clock := func() time.Time { return time.Now().Add(time.Duration(shift.Load())) }
	db := memstore.New(&memstore.Options{Now: clock})
	deadly := saga.New("deadly", &saga.Options[trip]{Key: tripKey},
		saga.Do("deadly", func(context.Context, tx, saga.Run[trip]) (int, error) {
			if deaths.Load() < 2 {
				deaths.Add(1)
				runtime.Goexit()
			}
			if slow.Load() > 0 {
				t.Error("it runs next to another step")
			}
			return 0, nil
		}, nil, saga.NoEffect()))
	begun, end := make(chan bool), make(chan bool)
	slowly := saga.New("slow", &saga.Options[trip]{Key: tripKey},
		saga.Do("slow", func(ctx context.Context, _ tx, _ saga.Run[trip]) (int, error) {
			slow.Add(1)
			defer slow.Add(-1)
			close(begun)
			<-end
			return 0, nil
		}, nil, saga.NoEffect(), saga.Retry(saga.Policy{Timeout: time.Hour})))
	quick := saga.New("quick", &saga.Options[trip]{Key: tripKey}, ledger("a"))
	o := &saga.EngineOptions{Logger: slog.New(slog.DiscardHandler), Now: clock}
	engine := func(db *memstore.Store) *saga.Engine[tx] {
		e, err := saga.NewEngine(db, o, deadly, slowly, quick)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	begin(t, db, engine(db), deadly, trip{ID: "k"})
	for range 2 {
		process, died := db.Session(), make(chan struct{})
		go func() {
			defer close(died)
			_, _ = engine(process).Step(context.Background())
		}()
		<-died
		process.Kill()
		shift.Add(int64(time.Minute))
	}
	gone := store.ClaimRequest{Session: "gone", Lease: time.Second,
		Sagas: &store.SagaClaimRequest{Hashes: []string{deadly.Hash()}, Limit: 1}}
	if c, err := db.Claim(t.Context(), gone); err != nil || len(c.Sagas) != 1 {
		t.Fatal(c, err)
	}
	e := engine(db)
	running(t, e)
	begin(t, db, e, slowly, trip{ID: "s"})
	<-begun
	version := func() int64 {
		return awaitStanding(t, db, "k", func(store.Saga) bool { return true }).Version
	}
	was := version()
	for i, more := 0, 2; more > 0; i++ {
		if version() > was {
			more--
		}
		key := fmt.Sprint("quick ", i)
		begin(t, db, e, quick, trip{ID: key})
		await(t, e, quick, key)
	}
	close(end)
	await(t, e, slowly, "s")
	if end := await(t, e, deadly, "k"); !end.Done {
		t.Errorf("%+v", end)
	}
}

// TestHangs: the attempt of a function that ignores its context and does not return counts. The function
// keeps no worker, and another process takes the saga over.
func TestHangs(t *testing.T) {
	t.Parallel()
	db, end := memstore.New(nil), make(chan bool)
	var calls atomic.Int64
	hangs := saga.New("hangs", &saga.Options[trip]{Key: tripKey}, ledger("a"),
		saga.Do("b", func(_ context.Context, tx tx, r saga.Run[trip]) (int, error) {
			n := calls.Add(1)
			if n == 1 {
				<-end
			}
			return int(n), tx.Put(r.Key+" b", fmt.Sprint(n))
		}, nil, saga.NoEffect(), saga.Retry(saga.Policy{Attempts: 3, InitialInterval: time.Millisecond,
			Timeout: 2 * time.Second})))
	quick := saga.New("quick", &saga.Options[trip]{Key: tripKey}, ledger("a"))
	engine := func() *saga.Engine[tx] {
		e, err := saga.NewEngine(db, &saga.EngineOptions{Logger: slog.New(slog.DiscardHandler), Workers: 1},
			hangs, quick)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := engine()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	begin(t, db, e, hangs, trip{ID: "h"})
	awaitStanding(t, db, "h", func(store.Saga) bool { return calls.Load() > 0 })
	begin(t, db, e, quick, trip{ID: "q"})
	await(t, e, quick, "q")
	s := awaitStanding(t, db, "h", func(s store.Saga) bool { return s.Failed > 0 })
	if s.Failed != 1 || !strings.Contains(s.Error, "ignores its context") {
		t.Errorf("its state is %+v", s.SagaStatus)
	}
	begin(t, db, e, quick, trip{ID: "r"})
	await(t, e, quick, "r")
	stop()
	other := engine()
	running(t, other)
	if end := await(t, other, hangs, "h"); !end.Done {
		t.Errorf("it ended as %+v", end)
	}
	close(end)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n, v := calls.Load(), db.User()["h b"]; n != 2 || v != "2" {
		t.Errorf("%d calls left %q", n, v)
	}
}

var errCut = errors.New("conn closed")

// cut is a store whose errors are those of a connection that the engine closed.
type cut struct{ *memstore.Store }

type cutUnit struct{ store.Unit[tx] }

func (c cut) Outage(err error) bool { return errors.Is(err, errCut) || c.Store.Outage(err) }

func (c cut) Begin(ctx context.Context, in store.Intake) (store.Unit[tx], error) {
	u, err := c.Store.Begin(ctx, in)
	return cutUnit{u}, err
}

func (u cutUnit) Rollback(ctx context.Context, es ...store.Effect) ([]bool, error) {
	stand, err := u.Unit.Rollback(ctx)
	return stand, errors.Join(err, errCut)
}

// TestLogOfAFunctionThatHangs: the log has one line when a function hangs, and one when it returns. The
// connection that it lost is not reported as a fault of the database.
func TestLogOfAFunctionThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, log := cut{memstore.New(nil)}, &testlog.Log{}
		var calls atomic.Int64
		d := saga.New("hangs", &saga.Options[trip]{Key: tripKey},
			saga.Do("b", func(_ context.Context, tx tx, r saga.Run[trip]) (int, error) {
				if calls.Add(1) == 1 {
					<-time.After(time.Minute)
					return 0, errCut
				}
				return 0, tx.Put(r.Key+" b", "done")
			}, nil, saga.NoEffect(), saga.Retry(saga.Policy{InitialInterval: time.Minute,
				Timeout: time.Second})))
		e, err := saga.NewEngine(db, &saga.EngineOptions{Logger: log.Logger()}, d)
		if err != nil {
			t.Fatal(err)
		}
		begin(t, db.Store, e, d, trip{ID: "h"})
		runFor(t, e, 5*time.Minute)
		if db.User()["h b"] != "done" {
			t.Errorf("after %d calls: %v", calls.Load(), db.User())
		}
		for line, want := range map[string]int{"saga: a function does not return": 1,
			"saga: a function that did not return in time has returned": 1, "the database does not store": 0} {
			if n := log.Count(line); n != want {
				t.Errorf("%q is in %d lines: %s", line, n, log)
			}
		}
	})
}

// TestRequestThatHangsIsMadeOnce: a process sends a request that ignores its context only once, even if the
// saga is claimed repeatedly. It counts once towards its provider's limit, so other sagas continue.
func TestRequestThatHangsIsMadeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, at := memstore.New(nil), call.NewProvider("p",
			&call.ProviderOptions{Timeout: time.Second, Limit: 2})
		var calls atomic.Int64
		d := saga.New("s", &saga.Options[trip]{Key: tripKey},
			saga.CallWith("pay", saga.Request[tx, trip, string, string]{At: at,
				Intent: func(_ context.Context, _ tx, r saga.Run[trip]) (string, error) { return r.Key, nil },
				Do: func(_ context.Context, req, _ string) (string, error) {
					if req == "hangs" {
						calls.Add(1)
						<-time.After(10 * time.Minute)
					}
					return "", nil
				}}, nil, saga.NoEffect()))
		e, err := saga.NewEngine(db, &saga.EngineOptions{Logger: slog.New(slog.DiscardHandler)}, d)
		if err != nil {
			t.Fatal(err)
		}
		begin(t, db, e, d, trip{ID: "hangs"})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx) }()
		time.Sleep(4 * time.Minute)
		for i := range 10 {
			key := fmt.Sprint("k", i)
			begin(t, db, e, d, trip{ID: key})
			time.Sleep(time.Second)
			if s := awaitStanding(t, db, key, func(store.Saga) bool { return true }); s.Ended.IsZero() {
				t.Errorf("%s has not ended: %+v", key, s.SagaStatus)
			}
		}
		if n := calls.Load(); n != 1 {
			t.Errorf("it was requested %d times", n)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		time.Sleep(10 * time.Minute) // the request returns
	})
}
