package saga_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// tallied is a store that counts transactions and polls.
type tallied struct {
	*memstore.Store
	begins, turns atomic.Int64
	calls         atomic.Int64 // of an idle engine
	bound         atomic.Int64 // Intake.Handle of the first transaction of a saga
}

func (c *tallied) Claim(ctx context.Context, w store.ClaimRequest) (store.Claimed, error) {
	c.calls.Add(1)
	return c.Store.Claim(ctx, w)
}

func (c *tallied) Apply(ctx context.Context, es ...store.Effect) ([]bool, error) {
	c.calls.Add(1)
	return c.Store.Apply(ctx, es...)
}

func (c *tallied) List(ctx context.Context, l store.List) (store.Listed, error) {
	c.calls.Add(1)
	return c.Store.List(ctx, l)
}

func (c *tallied) Check(ctx context.Context, as store.Role) error {
	c.calls.Add(5) // PostgreSQL needs a transaction for each query
	return c.Store.Check(ctx, as)
}

func (c *tallied) Probe(ctx context.Context) error {
	c.calls.Add(1)
	return c.Store.Probe(ctx)
}

func (c *tallied) Begin(ctx context.Context, in store.Intake) (store.Unit[tx], error) {
	c.begins.Add(1)
	if len(in.Sagas) > 0 {
		c.bound.CompareAndSwap(0, max(1, int64(in.Handle)))
	}
	return c.Store.Begin(ctx, in)
}

func (c *tallied) Woken() <-chan struct{} {
	c.turns.Add(1)
	return c.Store.Woken()
}

// inBubble runs an engine with two workers, and with the fake clock of synctest.
func inBubble(t *testing.T, d *saga.Definition[trip],
	f func(t *testing.T, ctx context.Context, db *tallied, e *saga.Engine[tx])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		db := &tallied{Store: memstore.New(nil)}
		e, err := saga.NewEngine(db, &saga.EngineOptions{Workers: 2}, d)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx) }()
		synctest.Wait()
		f(t, ctx, db, e)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestIdleEnginePollsRarely: an idle engine makes about nine database calls a minute: a claim every 8 s, and
// one a minute for its definitions. It checks the tables once, and does not probe a database that answers.
func TestIdleEnginePollsRarely(t *testing.T) {
	d := saga.New("trip", &saga.Options[trip]{Key: tripKey}, ledger("flight"))
	inBubble(t, d, func(t *testing.T, _ context.Context, db *tallied, e *saga.Engine[tx]) {
		time.Sleep(time.Minute)
		before := db.calls.Load()
		time.Sleep(10 * time.Minute)
		if n := db.calls.Load() - before; n > 110 || !e.Health().Ready {
			t.Errorf("it made %d calls in 10 minutes; ready %v", n, e.Health().Ready)
		}
	})
}

// TestFirstStepHasItsOwnTime: the engine that started a saga begins its first transaction before it reads
// the saga. The database ends that transaction if it is idle for longer than the Timeout of the first step
// plus 5 s.
func TestFirstStepHasItsOwnTime(t *testing.T) {
	d := saga.New("trip", &saga.Options[trip]{Key: tripKey}, saga.Do("flight",
		func(context.Context, tx, saga.Run[trip]) (int, error) { return 0, nil }, nil, saga.NoEffect(),
		saga.Timeout(3*time.Minute)))
	inBubble(t, d, func(t *testing.T, ctx context.Context, db *tallied, e *saga.Engine[tx]) {
		in := db.BeginTx()
		_, err := saga.Bind(e, d).Start(ctx, in, trip{ID: "a"})
		done(t, "start", in, err)
		if end, err := saga.Bind(e, d).Await(ctx, "a"); err != nil || !end.Done {
			t.Errorf("%+v, %v", end, err)
		}
		if got := time.Duration(db.bound.Load()); got != 3*time.Minute+5*time.Second {
			t.Errorf("its transaction lives for %v", got)
		}
	})
}

func done(t *testing.T, what string, tx tx, errs ...error) {
	t.Helper()
	if err := errors.Join(append(errs, tx.Commit())...); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// TestEarlyCancelsAndSignals: a saga that is cancelled or signalled together with its start, or right after
// it, continues at once. Its engine does not wait for the end of the lease, as for an uncommitted start.
func TestEarlyCancelsAndSignals(t *testing.T) {
	now := saga.Signal[bool]{Name: "now"}
	d := saga.New("trip", &saga.Options[trip]{Key: tripKey}, ledger("flight"), saga.Wait[trip]("wait", now))
	inBubble(t, d, func(t *testing.T, ctx context.Context, db *tallied, e *saga.Engine[tx]) {
		start := func(key string, tx tx) error {
			_, err := saga.Bind(e, d).Start(ctx, tx, trip{ID: key})
			return err
		}
		cancel := func(key string, tx tx) error {
			_, err := saga.Bind(e, d).Cancel(ctx, tx, key, "no more")
			return err
		}
		send := func(key string, tx tx) error {
			_, err := now.Send(ctx, saga.Bind(e, d).In(tx), key, true)
			return err
		}
		began := time.Now()
		for name, change := range map[string]func(string, tx) error{"cancelled": cancel, "sent": send} {
			together := db.BeginTx()
			done(t, name+" with its start", together, start(name, together), change(name, together))
			first := db.BeginTx()
			done(t, name, first, start(name+" after", first))
			second := db.BeginTx()
			done(t, name+" after its start", second, change(name+" after", second))
			for _, key := range []string{name, name + " after"} {
				if end, err := saga.Bind(e, d).Await(ctx, key); err != nil || end.Done != (name == "sent") {
					t.Errorf("%s: %+v, %v", key, end, err)
				}
			}
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("four sagas took %v", took)
		}
	})
}

// TestRolledBackStartsArePolledRarely: polls for starts that were rolled back get rarer, and need no
// transaction each. Other sagas continue.
func TestRolledBackStartsArePolledRarely(t *testing.T) {
	d := saga.New("trip", &saga.Options[trip]{Key: tripKey}, ledger("flight"))
	inBubble(t, d, func(t *testing.T, ctx context.Context, db *tallied, e *saga.Engine[tx]) {
		const ghosts = 50
		tx := db.BeginTx()
		for i := range ghosts {
			if _, err := saga.Bind(e, d).Start(ctx, tx, trip{ID: fmt.Sprint("ghost-", i)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		real := db.BeginTx()
		_, err := saga.Bind(e, d).Start(ctx, real, trip{ID: "real"})
		done(t, "start", real, err)
		if end, err := saga.Bind(e, d).Await(ctx, "real"); err != nil || !end.Done {
			t.Errorf("%+v, %v", end, err)
		}
		<-time.After(time.Minute)
		if n := db.begins.Load(); n > 3*ghosts {
			t.Errorf("%d transactions began for %d starts that are not there", n, ghosts)
		}
	})
}

// TestRolledBackStartAndTheNextOfItsKey: a start that was rolled back is never run, even if the next start
// of its key is stored before its worker polls, with the same input or another. The next start does not
// wait for it.
func TestRolledBackStartAndTheNextOfItsKey(t *testing.T) {
	note := func(_ context.Context, tx tx, r saga.Run[trip]) (string, error) {
		return r.ID, tx.Put(r.Key, r.ID+" "+r.In.Fail["as"])
	}
	d := saga.New("trip", &saga.Options[trip]{Key: tripKey},
		saga.Do("note", note, nil, saga.NoEffect()), saga.Do("again", note, nil, saga.NoEffect()))
	inBubble(t, d, func(t *testing.T, ctx context.Context, db *tallied, e *saga.Engine[tx]) {
		start := func(key, as string, end func(tx) error) (id string) {
			t.Helper()
			tx := db.BeginTx()
			s, err := saga.Bind(e, d).Start(ctx, tx, trip{ID: key, Fail: map[string]string{"as": as}})
			if err := errors.Join(err, end(tx)); err != nil || !s.New {
				t.Fatalf("%+v, %v", s, err)
			}
			return s.ID
		}
		began := time.Now()
		for i := range 20 {
			key, second := fmt.Sprint("k-", i), []string{"second", "first"}[i%2]
			start(key, "first", tx.Rollback)
			id := start(key, second, tx.Commit)
			if end, err := saga.Bind(e, d).Await(ctx, key); err != nil || !end.Done {
				t.Errorf("%+v, %v", end, err)
			}
			if got := db.User()[key]; got != id+" "+second {
				t.Errorf("it was run as %q, want %q", got, id+" "+second)
			}
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("20 sagas took %v", took)
		}
	})
}

// TestEngineWithoutRoomDoesNotSpin: while sagas wait for a worker, the engine polls at a limited rate.
func TestEngineWithoutRoomDoesNotSpin(t *testing.T) {
	db := &tallied{Store: memstore.New(nil)}
	hold, held := make(chan struct{}), make(chan struct{}, 10)
	d := saga.New("trip", &saga.Options[trip]{Key: tripKey},
		saga.Do("hold", func(context.Context, tx, saga.Run[trip]) (bool, error) {
			held <- struct{}{}
			<-hold
			return true, nil
		}, nil, saga.Pivot()))
	e, err := saga.NewEngine(db, &saga.EngineOptions{Workers: 2}, d)
	if err != nil {
		t.Fatal(err)
	}
	running(t, e)
	for i := range 10 {
		tx := db.BeginTx()
		_, err := saga.Bind(e, d).Start(t.Context(), tx, trip{ID: fmt.Sprint("t-", i)})
		done(t, "start", tx, err)
	}
	<-held
	<-held
	began, before := time.Now(), db.turns.Load()
	<-time.After(200 * time.Millisecond)
	most := int64(time.Since(began)/(5*time.Millisecond)) + 100
	if n := db.turns.Load() - before; n > 4*most {
		t.Errorf("%d turns of the loop in %v", n, time.Since(began))
	}
	close(hold)
}

// TestAwaitOfKeysThatNoSagaCanHave: neither an empty key nor one with invalid UTF-8 finds a saga.
func TestAwaitOfKeysThatNoSagaCanHave(t *testing.T) {
	db, d := memstore.New(nil), trips()
	e := engineOf(t, db, d)
	begin(t, db, e, d, trip{ID: "a"})
	for _, key := range []string{"", "a\xff", "a\x00"} {
		if _, err := saga.Bind(e, d).Await(t.Context(), key); !errors.As(err, new(*saga.NoSagaError)) {
			t.Errorf("%q: %v", key, err)
		}
	}
}

// single is a store with one connection, on which a list takes 100 ms.
type single struct {
	*memstore.Store
	connection chan struct{}
}

func (s *single) List(ctx context.Context, l store.List) (store.Listed, error) {
	select {
	case s.connection <- struct{}{}:
		<-time.After(100 * time.Millisecond)
		<-s.connection
		return s.Store.List(ctx, l)
	case <-ctx.Done():
		return store.Listed{}, ctx.Err()
	}
}

// TestAwaitsOfASlowStore checks that many calls of Await, which wait for one connection, are not reported as
// an outage.
func TestAwaitsOfASlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, d := &single{memstore.New(nil), make(chan struct{}, 1)}, trips()
		e, err := saga.NewEngine(db, nil, d) // another engine runs the saga
		if err != nil {
			t.Fatal(err)
		}
		begin(t, db.Store, e, d, trip{ID: "a"})
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
		defer stop()
		answers := make(chan error, 400)
		for range cap(answers) {
			go func() {
				_, err := saga.Bind(e, d).Await(ctx, "a")
				answers <- err
			}()
		}
		for range cap(answers) {
			if err := <-answers; !errors.Is(err, context.DeadlineExceeded) || ctx.Err() == nil {
				t.Fatal(err)
			}
		}
	})
}

// TestSagasThatWaitForAWorkerAreNotTakenOver: a saga that waits for a worker is released before its lease
// ends, in each phase. So the engine that takes it over counts no crash. A known answer is not requested
// again.
func TestSagasThatWaitForAWorkerAreNotTakenOver(t *testing.T) {
	slow := saga.Do("slow", func(_ context.Context, tx tx, r saga.Run[trip]) (string, error) {
		<-time.After(12 * time.Second) // slow work; the lease is 10 s
		return "", tx.Put(r.Key, "done")
	}, nil, saga.NoEffect())
	var asked, answered atomic.Int64
	quote := saga.CallWith("quote", saga.Request[tx, trip, int64, int]{
		At:     call.NewProvider("agency", nil),
		Intent: func(context.Context, tx, saga.Run[trip]) (int64, error) { return asked.Add(1), nil },
		Do: func(_ context.Context, n int64, _ string) (int, error) {
			answered.Add(1)
			<-time.After(time.Duration(n) * time.Second / 3) // one after the other, while others work
			return 2, nil
		},
	}, nil, saga.NoEffect())
	inner := saga.New("inner", &saga.Options[trip]{Key: tripKey}, slow)
	for name, steps := range map[string][]saga.StepOf[trip]{
		"a function": {slow}, "a call": {quote, slow},
		"a child": {saga.Child("inner", inner, func(r saga.Run[trip]) trip { return r.In })},
	} {
		t.Run(name, func(t *testing.T) {
			asked.Store(0)
			answered.Store(0)
			d := saga.New("trip", &saga.Options[trip]{Key: tripKey}, steps...)
			inBubble(t, d, func(t *testing.T, ctx context.Context, db *tallied, e *saga.Engine[tx]) {
				waitForWorkers(t, ctx, db, d, e)
			})
			if n := answered.Load(); name == "a call" && n != 12 {
				t.Errorf("12 calls were made %d times", n)
			}
		})
	}
}

// waitForWorkers runs twelve sagas with a step of 12 s on two engines with two workers each.
func waitForWorkers(t *testing.T, ctx context.Context, db *tallied, d *saga.Definition[trip],
	e *saga.Engine[tx]) {
	other, err := saga.NewEngine(db, &saga.EngineOptions{Workers: 2}, d)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(ctx)
	go func() { ended <- other.Run(ctx) }()
	began, keys := time.Now(), 12
	for i := range keys {
		tx := db.BeginTx()
		_, err := saga.Bind(e, d).Start(ctx, tx, trip{ID: fmt.Sprint("k-", i)})
		done(t, "start", tx, err)
	}
	for i := range keys {
		if end, err := saga.Bind(e, d).Await(ctx, fmt.Sprint("k-", i)); err != nil || !end.Done {
			t.Errorf("%+v, %v", end, err)
		}
	}
	if took := time.Since(began); took > 72*time.Second { // twice the optimum
		t.Errorf("12 steps of 12 s by four workers took %v", took)
	}
	if n := e.Health().TakenOver + other.Health().TakenOver; n > 0 {
		t.Errorf("%d sagas were taken over, and no process ended", n)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestOddTimes checks a time with an unusual zone, and the longest timeout.
func TestOddTimes(t *testing.T) {
	d := saga.New("trip", &saga.Options[trip]{Key: tripKey},
		ledger("flight", saga.Retry(saga.Policy{Timeout: math.MaxInt64})),
		saga.Until("zone", func(saga.Run[trip]) time.Time {
			return time.Now().Add(time.Minute).In(time.FixedZone("far", 25*3600+30))
		}))
	inBubble(t, d, func(t *testing.T, ctx context.Context, db *tallied, e *saga.Engine[tx]) {
		began, tx := time.Now(), db.BeginTx()
		_, err := saga.Bind(e, d).Start(ctx, tx, trip{ID: "t"})
		done(t, "start", tx, err)
		if end, err := saga.Bind(e, d).Await(ctx, "t"); err != nil || !end.Done {
			t.Errorf("%+v, %v", end, err)
		}
		if took := time.Since(began); took < time.Minute || took > time.Minute+5*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
