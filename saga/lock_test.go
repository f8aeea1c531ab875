package saga_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
	"github.com/skald-go/skald/store/sqlitestore"
)

// accounts returns the entities that a trip's Fail names under "lock", separated by spaces. The default is
// "acct".
func accounts(r saga.Run[trip]) (out []store.Lock) {
	for name := range strings.FieldsSeq(r.In.Fail["lock"]) {
		out = append(out, store.Lock{Space: "account", Key: name})
	}
	return out
}

// inside returns a step after which a saga must be alone with its accounts, until the undo of the step or the
// step leave.
func inside() *saga.Step[trip, []string] {
	return saga.Do("enter", func(_ context.Context, tx tx, r saga.Run[trip]) (out []string, err error) {
		for _, e := range accounts(r) {
			if by, there := tx.Get("in " + e.Key); there {
				return nil, fmt.Errorf("%s is in %s already", by, e.Key)
			}
			if err := tx.Put("in "+e.Key, r.Key); err != nil {
				return nil, err
			}
			out = append(out, e.Key)
		}
		return out, nil
	}, func(_ context.Context, tx tx, _ saga.Run[trip], in []string) (err error) {
		for _, key := range in {
			err = errors.Join(err, tx.Delete("in "+key))
		}
		return err
	}, saga.Retry(saga.Policy{Attempts: 1}))
}

func leave() *saga.Step[trip, string] {
	return saga.Do("leave", func(_ context.Context, tx tx, r saga.Run[trip]) (_ string, err error) {
		for _, e := range accounts(r) {
			err = errors.Join(err, tx.Delete("in "+e.Key))
		}
		return "", err
	}, nil, saga.NoEffect())
}

// locking returns a saga that must be alone with its accounts. If "hold" is set, it waits there for the test.
func locking(opts ...saga.Option) *saga.Definition[trip] {
	return saga.New("locking", &saga.Options[trip]{Key: tripKey}, ledger("before"),
		saga.Lock("lock", accounts, opts...), inside(),
		saga.Wait[trip]("hand", hand,
			saga.When(func(r saga.Run[trip]) bool { return r.In.Fail["hold"] != "" })),
		ledger("work"), leave())
}

var hand = saga.Signal[bool]{Name: "hand"}

func holds(t *testing.T, db *memstore.Store) (out []string) {
	t.Helper()
	hs, err := store.ListHolds(t.Context(), db, store.HoldQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hs {
		out = append(out, fmt.Sprintf("%s: %s after %d", h.Key, h.Saga.Key, h.Before))
	}
	return out
}

// TestLock checks that sagas with one entity run one after the other, whether they end well or turn back. No
// queue entry is left. The clock does not move, so each saga is woken and none waits for a timer.
func TestLock(t *testing.T) {
	at := time.Now()
	clock := func() time.Time { return at }
	for range 10 {
		db, d := memstore.New(&memstore.Options{Now: clock}), locking()
		quiet := slog.New(slog.DiscardHandler)
		e, err := saga.NewEngine(db, &saga.EngineOptions{Now: clock, Logger: quiet}, d)
		if err != nil {
			t.Fatal(err)
		}
		running(t, e)
		const sagas = 40
		locks := []string{"a", "b a", "b", "a b c"}
		for i := range sagas {
			in := trip{ID: fmt.Sprint("t-", i), Fail: map[string]string{"lock": locks[i%4]}}
			if i%3 == 0 {
				in.Fail["work"] = "reject"
			}
			begin(t, db, e, d, in)
		}
		for i := range sagas {
			key := fmt.Sprint("t-", i)
			if end := await(t, e, d, key); end.Done != (i%3 != 0) || !end.Done && end.Step != "work" {
				t.Errorf("%s ended as %+v", key, end)
			}
		}
		if hs := holds(t, db); len(hs) > 0 {
			t.Errorf("held are %q", hs)
		}
		for key := range db.User() {
			if strings.HasPrefix(key, "in ") {
				t.Errorf("a saga is %s", key)
			}
		}
	}
}

// TestLockOrder: sagas get the entity in the order of arrival, and are woken without a timer. A waiting
// saga can be cancelled, and then blocks no other.
func TestLockOrder(t *testing.T) {
	now := time.Now()
	db := memstore.New(&memstore.Options{Now: func() time.Time { return now }})
	d := locking()
	e, err := saga.NewEngine(db, &saga.EngineOptions{Now: func() time.Time { return now }}, d)
	if err != nil {
		t.Fatal(err)
	}
	step := func() {
		t.Helper()
		for range 100 {
			if busy, err := e.Step(t.Context()); err != nil {
				t.Fatal(err)
			} else if !busy {
				return
			}
		}
		t.Fatal("it never gets idle")
	}
	want := func(lines ...string) {
		t.Helper()
		if got := holds(t, db); !slices.Equal(got, lines) {
			t.Errorf("the lines are %q, want %q", got, lines)
		}
	}
	for _, s := range []struct{ key, lock string }{{"one", "a b"}, {"two", "b c"}, {"three", "c"}, {"four",
		"a"}} {
		begin(t, db, e, d, trip{ID: s.key, Fail: map[string]string{"lock": s.lock, "hold": "yes"}})
		step()
	}
	want("a: one after 0", "a: four after 1", "b: one after 0",
		"b: two after 1", "c: two after 0", "c: three after 1")
	send := func(key string) {
		t.Helper()
		if _, err := hand.Send(t.Context(), saga.Bind(e, d), key, true); err != nil {
			t.Fatal(err)
		}
		step()
	}
	send("one")
	want("a: four after 0", "b: two after 0", "c: two after 0",
		"c: three after 1")
	in := func(account, key string) {
		t.Helper()
		if got := db.User()["in "+account]; got != key {
			t.Errorf("%q is in %s, want %q", got, account, key)
		}
	}
	in("a", "four")
	in("c", "two")
	tx := db.BeginTx()
	hs, err := saga.Held(t.Context(), e, tx, store.Lock{Space: "account", Key: "c"},
		store.Lock{Space: "account", Key: "d"})
	if err != nil || len(hs) != 1 || hs[0].Name != "locking" || hs[0].Key != "two" || hs[0].Lock.Key != "c" {
		t.Errorf("held: %+v, %v", hs, err)
	}
	if _, err := saga.Bind(e, d).Cancel(t.Context(), tx, "three", "no more"); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	step()
	want("a: four after 0", "b: two after 0", "c: two after 0")
	if end := await(t, e, d, "three"); end.Done || end.Why != "cancel" || left(db, "three") > 0 {
		t.Errorf("three ended as %+v", end)
	}
	send("two")
	send("four")
	want()
}

// TestCancelOfAWaitingLock checks that Cancel reports that no undo is called, because a saga that waits for
// its entities has done nothing.
func TestCancelOfAWaitingLock(t *testing.T) {
	db := memstore.New(nil)
	d := saga.New("locking", &saga.Options[trip]{Key: tripKey}, saga.Lock("lock", accounts), ledger("work"),
		saga.Wait[trip]("hand", hand))
	e := engineOf(t, db, d)
	running(t, e)
	begin(t, db, e, d, trip{ID: "one", Fail: map[string]string{"lock": "a"}})
	awaitStanding(t, db, "one", func(s store.Saga) bool { return s.Step == "hand" })
	begin(t, db, e, d, trip{ID: "two", Fail: map[string]string{"lock": "a"}})
	awaitStanding(t, db, "two", func(s store.Saga) bool { return s.Step == "lock" && s.Session == "" })
	for _, c := range []struct {
		key  string
		want saga.SignalResult
	}{{"two", saga.NothingToUndo}, {"one", saga.Taken}} {
		tx := db.BeginTx()
		got, err := saga.Bind(e, d).Cancel(t.Context(), tx, c.key, "no more")
		if err = errors.Join(err, tx.Commit()); err != nil || got != c.want {
			t.Errorf("%s is cancelled: %v, %v", c.key, got, err)
		}
		if end := await(t, e, d, c.key); end.Done {
			t.Errorf("%s ended as %+v", c.key, end)
		}
	}
	if hs := holds(t, db); len(hs) > 0 || left(db, "one") > 0 {
		t.Errorf("held are %q", hs)
	}
}

// TestLockOfTheNextBuild: a saga that holds entities by one step never waits for others by another one, in
// any build.
func TestLockOfTheNextBuild(t *testing.T) {
	inner := func(steps ...saga.StepOf[trip]) saga.StepOf[trip] {
		d := saga.New("inner", &saga.Options[trip]{Key: tripKey}, steps...)
		return saga.Child("kid", d, func(r saga.Run[trip]) trip { return r.In })
	}
	def := func(steps ...saga.StepOf[trip]) *saga.Definition[trip] {
		return saga.New("outer", &saga.Options[trip]{Key: tripKey}, steps...)
	}
	lock, work := saga.Lock("lock", accounts), ledger("work")
	late := saga.Lock("late", accounts)
	for _, c := range []struct {
		older, newer *saga.Definition[trip]
		refused      bool
	}{
		{def(inner(lock, work), work), def(inner(work), work, late), true},
		{def(lock, work), def(work, late), true},
		{def(inner(work), work), def(inner(work), work, late), false},
		{def(lock, work), def(lock, work), false},
	} {
		refused := false
		for _, change := range saga.Compare(c.older, c.newer) {
			refused = refused || change.Step == "late" && change.Class == saga.Refused
		}
		if refused != c.refused {
			t.Errorf("%s\nbecomes\n%s\n%v", c.older.Text(), c.newer.Text(), saga.Compare(c.older, c.newer))
		}
	}
}

// TestLockTimeout: if the entities are not free in time, the saga turns back.
func TestLockTimeout(t *testing.T) {
	now := time.Now()
	db := memstore.New(&memstore.Options{Now: func() time.Time { return now }})
	d := locking(saga.Timeout(25 * time.Second))
	e, err := saga.NewEngine(db, &saga.EngineOptions{Now: func() time.Time { return now }}, d)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"one", "two"} {
		begin(t, db, e, d, trip{ID: key, Fail: map[string]string{"lock": "a", "hold": "yes"}})
	}
	for range 6 {
		for busy := true; busy; {
			if busy, err = e.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		now = now.Add(6 * time.Second)
	}
	end := await(t, e, d, "two")
	if end.Done || end.Step != "lock" || !strings.Contains(end.Reason, "not free within 25s") {
		t.Errorf("two ended as %+v", end)
	}
	if hs := holds(t, db); len(hs) != 1 {
		t.Errorf("held are %q", hs)
	}
}

// TestLockOfAChild: the parent keeps the entities of a child until its own end.
func TestLockOfAChild(t *testing.T) {
	db := memstore.New(nil)
	inner := saga.New("inner", &saga.Options[trip]{Key: func(in trip) string { return in.ID + "/inner" }},
		saga.Lock("lock", accounts), inside())
	middle := saga.New("middle", &saga.Options[trip]{Key: func(in trip) string { return in.ID + "/middle" }},
		saga.Child("inner", inner, func(r saga.Run[trip]) trip { return r.In }))
	outer := saga.New("outer", &saga.Options[trip]{Key: tripKey},
		saga.Child("middle", middle, func(r saga.Run[trip]) trip { return r.In }),
		saga.Wait[trip]("hand", hand,
			saga.When(func(r saga.Run[trip]) bool { return r.In.Fail["hold"] != "" })),
		ledger("work"), leave())
	e := engineOf(t, db, outer)
	running(t, e)
	begin(t, db, e, outer, trip{ID: "one", Fail: map[string]string{"lock": "a", "hold": "yes"}})
	awaitStanding(t, db, "one", func(s store.Saga) bool { return s.Step == "hand" })
	begin(t, db, e, outer, trip{ID: "two", Fail: map[string]string{"lock": "a", "work": "reject"}})
	awaitStanding(t, db, "two/inner", func(s store.Saga) bool { return s.Step == "lock" && s.Session == "" })
	if hs := holds(t, db); len(hs) != 2 || hs[1] != "a: two/inner after 1" {
		t.Errorf("held are %q", hs)
	}
	if _, err := hand.Send(t.Context(), saga.Bind(e, outer), "one", true); err != nil {
		t.Fatal(err)
	}
	if end := await(t, e, outer, "one"); !end.Done {
		t.Errorf("one ended as %+v", end)
	}
	if end := await(t, e, outer, "two"); end.Done || end.Step != "work" || left(db, "two") > 0 {
		t.Errorf("two ended as %+v", end)
	}
	if hs := holds(t, db); len(hs) > 0 {
		t.Errorf("held are %q", hs)
	}
}

// TestSQLiteLock is the same on SQLite, with two engines on one file.
func TestSQLiteLock(t *testing.T) {
	dir := t.TempDir()
	file := opened(t, dir, "sagas")
	if _, err := sqlitestore.Migrate(t.Context(), file, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := file.ExecContext(t.Context(), "CREATE TABLE inside (account TEXT PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	const in, out = "INSERT INTO inside VALUES ('a')", "DELETE FROM inside"
	enter := saga.Do("enter", func(ctx context.Context, tx *sql.Tx, _ saga.Run[trip]) (bool, error) {
		_, err := tx.ExecContext(ctx, in)
		return true, err
	}, func(ctx context.Context, tx *sql.Tx, _ saga.Run[trip], _ bool) error {
		_, err := tx.ExecContext(ctx, out)
		return err
	}, saga.Retry(saga.Policy{Attempts: 1}))
	leave := saga.Do("leave", func(ctx context.Context, tx *sql.Tx, r saga.Run[trip]) (bool, error) {
		if r.In.Fail["work"] != "" {
			return false, skald.Reject(errors.New("no"))
		}
		_, err := tx.ExecContext(ctx, out)
		return true, err
	}, nil, saga.NoEffect())
	d := saga.New("locking", &saga.Options[trip]{Key: tripKey}, saga.Lock("lock", accounts), enter, leave)
	var engines []*saga.Engine[*sql.Tx]
	for range 2 {
		db := sqlitestore.New(opened(t, dir, "sagas"), nil)
		e, err := saga.NewEngine(db, &saga.EngineOptions{Logger: slog.New(slog.DiscardHandler)}, d)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- e.Run(ctx) }()
		t.Cleanup(func() {
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
		engines = append(engines, e)
	}
	const sagas = 20
	for i := range sagas {
		one := trip{ID: fmt.Sprint("t-", i), Fail: map[string]string{"lock": "a"}}
		if i%3 == 0 {
			one.Fail["work"] = "reject"
		}
		tx, err := file.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = saga.Bind(engines[i%2], d).Start(t.Context(), tx, one)
		if err = errors.Join(err, tx.Commit()); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for i := range sagas {
		end, err := saga.Bind(engines[0], d).Await(ctx, fmt.Sprint("t-", i))
		if err != nil || end.Done != (i%3 != 0) {
			t.Errorf("t-%d ended as %+v, %v", i, end, err)
		}
	}
}

// TestLockOfALastChild: a saga whose last step is a child keeps no entities after its end.
func TestLockOfALastChild(t *testing.T) {
	db := memstore.New(nil)
	inner := saga.New("inner", &saga.Options[trip]{Key: func(in trip) string { return in.ID + "/inner" }},
		ledger("before"), saga.Lock("lock", accounts), ledger("work"))
	middle := saga.New("middle", &saga.Options[trip]{Key: func(in trip) string { return in.ID + "/middle" }},
		saga.Child("inner", inner, func(r saga.Run[trip]) trip { return r.In }))
	outer := saga.New("outer", &saga.Options[trip]{Key: tripKey}, ledger("first"),
		saga.Child("middle", middle, func(r saga.Run[trip]) trip { return r.In }))
	e := engineOf(t, db, outer)
	running(t, e)
	for _, key := range []string{"one", "two"} {
		begin(t, db, e, outer, trip{ID: key, Fail: map[string]string{"lock": "a"}})
		if end := await(t, e, outer, key); !end.Done {
			t.Errorf("%s ended as %+v", key, end)
		}
		if hs := holds(t, db); len(hs) > 0 {
			t.Fatalf("held are %q", hs)
		}
	}
}

// TestLockAtTheEnd: a saga whose last step is a Lock keeps no entities after its end.
func TestLockAtTheEnd(t *testing.T) {
	db := memstore.New(nil)
	d := saga.New("locking", &saga.Options[trip]{Key: tripKey}, saga.Lock("lock", accounts))
	e := engineOf(t, db, d)
	running(t, e)
	begin(t, db, e, d, trip{ID: "one", Fail: map[string]string{"lock": "a"}})
	if end := await(t, e, d, "one"); !end.Done {
		t.Errorf("it ended as %+v", end)
	}
	if hs := holds(t, db); len(hs) > 0 {
		t.Errorf("held are %q", hs)
	}
}

func TestLockFaults(t *testing.T) {
	inner := saga.New("inner", &saga.Options[trip]{Key: tripKey}, saga.Lock("lock", accounts))
	own := func(r saga.Run[trip]) trip { return r.In }
	each := saga.Each(func(saga.Run[trip]) []string { return []string{"x", "y"} })
	type steps = []saga.StepOf[trip]
	one := saga.Lock("one", accounts)
	for _, c := range []struct {
		want  string
		steps steps
	}{
		{"could wait for each other", steps{one, saga.Lock("two", accounts)}},
		{"could wait for each other", steps{one, saga.Child("in", inner, own)}},
		{"has occurrences", steps{saga.Lock("one", accounts, each)}},
		{"has occurrences", steps{saga.Child("in", inner, own, each)}},
		{"no function", steps{saga.Lock[trip]("one", nil)}},
	} {
		d := saga.New("faulty", &saga.Options[trip]{Key: tripKey}, c.steps...)
		if err := d.Faults(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("the faults are %v, want %q", err, c.want)
		}
	}
	if err := inner.Faults(); err != nil {
		t.Error(err)
	}
}

// TestExploreLock: after a crash at any point, no queue entry is left, and no two sagas hold an entity at
// once.
func TestExploreLock(t *testing.T) { explored(t, lockedIn()) }

// lockedIn returns a stage of sagas that hold the same accounts, one after the other.
func lockedIn() stage {
	return stage{
		def: func() (*saga.Definition[trip], func(*memstore.Store, string, bool) error) {
			rest := saga.Wait[trip]("rest", hand, saga.Timeout(time.Second), saga.SkipOnTimeout())
			return saga.New("locking", &saga.Options[trip]{Key: tripKey}, ledger("before"),
				saga.Lock("lock", accounts), inside(), rest, ledger("work"), leave()), nobodyHolds
		},
		want: map[string]bool{"a": true, "c": true},
		ins: []trip{{ID: "a", Fail: map[string]string{"lock": "x"}},
			{ID: "b", Fail: map[string]string{"lock": "x", "work": "reject"}},
			{ID: "c", Fail: map[string]string{"lock": "y x"}}},
	}
}

func nobodyHolds(db *memstore.Store, _ string, _ bool) error {
	hs, err := store.ListHolds(context.Background(), db, store.HoldQuery{})
	if err != nil || len(hs) > 0 {
		return fmt.Errorf("held are %+v, %w", hs, err)
	}
	return nil
}

// TestExploreLockOfAChild is the same for sagas whose children lock, and whose parents turn back.
func TestExploreLockOfAChild(t *testing.T) {
	explored(t, stage{
		def: func() (*saga.Definition[trip], func(*memstore.Store, string, bool) error) {
			rest := saga.Wait[trip]("rest", hand, saga.Timeout(time.Second), saga.SkipOnTimeout())
			inner := saga.New("inner", &saga.Options[trip]{Key: tripKey}, saga.Lock("lock", accounts),
				inside())
			return saga.New("outer", &saga.Options[trip]{Key: tripKey}, ledger("before"),
				saga.Child("inner", inner, func(r saga.Run[trip]) trip { return r.In }), rest, ledger("work"),
				leave()), nobodyHolds
		},
		want: map[string]bool{"a": true, "c": true},
		ins: []trip{{ID: "a", Fail: map[string]string{"lock": "x"}},
			{ID: "b", Fail: map[string]string{"lock": "x", "work": "reject"}},
			{ID: "c", Fail: map[string]string{"lock": "x"}}},
	})
}

// TestTimeoutWithRetry: Timeout works together with Retry, in both orders.
func TestTimeoutWithRetry(t *testing.T) {
	retry, timeout := saga.Retry(saga.Policy{Attempts: 2}), saga.Timeout(3*time.Second)
	for _, opts := range [][]saga.Option{{retry, timeout}, {timeout, retry}} {
		p := locking(opts...).Body().Plan
		if step, _ := p.Step("lock"); step.Try.Timeout != 3*time.Second || step.Try.Attempts != 2 {
			t.Errorf("its policy is %+v", step.Try)
		}
	}
}
