package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
)

var errService = errors.New("the service is away")

// Many keys fail temporarily. Their attempts are counted for each message of other keys, so that no
// machine is too slow for the test. A partition has room for only part of them.
func TestBadKeysCostOthersLittle(t *testing.T) {
	t.Parallel()
	for name, batch := range map[string]int{"one by one": 1, "in batches": 0} {
		t.Run(name, func(t *testing.T) {
			t.Run("uncharged", func(t *testing.T) { badKeysCostLittle(t, batch, 0) })
			t.Run("charged", func(t *testing.T) { badKeysCostLittle(t, batch, time.Millisecond) })
		})
	}
}

func badKeysCostLittle(t *testing.T, batch int, uncharged time.Duration) {
	const bad, good = 300, 3000
	most := good/19 + 35
	if batch != 1 {
		most += bad // each runs once in a batch that is rolled back
	}
	w := newWorld(t, 4)
	tries, handled := 0, 0
	in := w.inbox(&inbox.Options{Now: w.clock, Limits: inbox.Limits{Unacknowledged: 50}, Batch: batch,
		Retry: inbox.Retry{OutageRetryTime: uncharged, Attempts: 1000, MaxInterval: 200 * time.Millisecond}},
		func(_ context.Context, _ tx, m skald.Received[string]) error {
			if m.Value == "bad" {
				tries++
				return skald.Outage(errService)
			}
			handled++
			return nil
		})
	for i := range good {
		if i%(good/bad) == 0 {
			w.publish(w.message(fmt.Sprint("bad", i), "bad"))
		}
		w.publish(w.message(fmt.Sprint("good", i), "good"))
	}
	for turns := 0; handled < good; turns++ {
		if turns > 20*good {
			t.Fatalf("%d of %d good messages were handled, after %d attempts at bad ones", handled, good,
				tries)
		}
		if _, err := in.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.pass(10 * time.Millisecond)
	}
	if again := tries - bad; again > most {
		t.Errorf("%d good messages cost %d attempts again at %d bad ones", good, again, bad)
	}
	if d := w.dead(); len(d) > 0 {
		t.Errorf("%d dead letters", len(d))
	}
}

// A key that fails temporarily has many messages in its partition, which has room for only part of them.
// The partition continues.
func TestOneBadKeyLeavesItsPartition(t *testing.T) {
	t.Parallel()
	const all = 2000
	w := newWorld(t, 1)
	good, handled := 0, 0
	in := w.inbox(&inbox.Options{Now: w.clock, Workers: 4, Limits: inbox.Limits{Unacknowledged: 300}},
		func(_ context.Context, _ tx, m skald.Received[string]) error {
			if m.Value == "bad" {
				return skald.Outage(errService)
			}
			handled++
			return nil
		})
	for i := range all {
		if i%4 == 0 {
			w.publish(w.message("bad", "bad"))
			continue
		}
		good++
		w.publish(w.message(fmt.Sprint("good", i%50), "good"))
	}
	for turns := 0; handled < good || !w.acknowledged(); turns++ {
		if turns > 20*all {
			t.Fatalf("%d of %d good messages were handled: %+v", handled, good, in.Health().Paused)
		}
		if _, err := in.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.pass(10 * time.Millisecond)
	}
	if k := w.kept(); len(k) != all-good {
		t.Errorf("%d messages of the key are parked, want %d", len(k), all-good)
	}
}

// The store has the start of OutageRetryTime with the message, so that a restart or another instance does not
// restart this time. After it the message becomes a dead letter like any other, and its key continues.
func TestTransientFailuresAreChargedAfterABoundedTime(t *testing.T) {
	w := newWorld(t, 1)
	o := inbox.Options{Now: w.clock, Retry: inbox.Retry{Attempts: 3, OutageRetryTime: 5 * time.Minute},
		Dead: inbox.Dead{FreeKey: true}}
	h := func(_ context.Context, tx tx, m skald.Received[string]) error {
		if m.Value == "bad" {
			return skald.Outage(errService)
		}
		return note(tx, "good", m.Value)
	}
	w.publish(w.message("k", "bad"), w.message("k", "1"), w.message("other", "2"))
	for minute := range 4 {
		in := w.inbox(&o, h)
		for range 60 {
			w.quiet(in)
			w.pass(time.Second)
		}
		first := slices.IndexFunc(w.kept(), func(p store.Parked) bool { return p.ID == "m-1" })
		if k := w.kept(); len(k) != 2 || first < 0 || k[first].Attempts != 0 || k[first].Dead != nil ||
			k[first].First.At.After(w.clock().Add(-time.Duration(minute)*time.Minute)) {
			t.Fatalf("after %d minutes: %+v", minute+1, k)
		}
		if s := in.Health(); len(s.Stuck) != 1 || !s.Stuck[0].Uncounted || !s.Ready {
			t.Errorf("after %d minutes: %+v", minute+1, s)
		}
		if err := in.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.expect("good", "2")
	in := w.inbox(&o, h)
	for range 6 * 60 {
		w.quiet(in)
		w.pass(time.Second)
	}
	w.expect("good", "2 1")
	if d := w.dead(); len(d) != 1 || d[0].Attempts != 3 || d[0].Dead.Kind != "attempts" {
		t.Errorf("%+v", d)
	}
}

// A message that fails temporarily in a batch runs alone from then on: its neighbors run once more, and
// later ones once.
func TestTransientFailureInABatch(t *testing.T) {
	w := newWorld(t, 1)
	runs, fails := map[string]int{}, 0
	in := w.inbox(&inbox.Options{Now: w.clock, Batch: 50, Workers: 1},
		func(_ context.Context, _ tx, m skald.Received[string]) error {
			if runs[m.ID]++; m.Value == "bad" {
				fails++
				return skald.Outage(errService)
			}
			return nil
		})
	for i := range 40 {
		w.publish(w.message(fmt.Sprint("k", i), map[bool]string{true: "bad"}[i == 20]))
	}
	for turn := range 300 {
		if 0 < turn && turn < 5 {
			for i := range 10 {
				m := w.message(fmt.Sprint("late", turn, "-", i), "")
				m.ID = "late-" + m.ID
				w.publish(m)
			}
		}
		w.quiet(in)
		w.pass(time.Second)
	}
	for id, n := range runs {
		if late := strings.HasPrefix(id, "late-"); id != "m-21" && n > 2 || late && n > 1 {
			t.Errorf("%s was run %d times", id, n)
		}
	}
	if fails < 8 || len(w.kept()) != 1 {
		t.Errorf("the bad one was run %d times; kept: %+v", fails, w.kept())
	}
}

// ticking is a clock that a test moves.
type ticking struct{ ahead atomic.Int64 }

func (c *ticking) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

func (c *ticking) pass(d time.Duration) { c.ahead.Add(int64(d)) }

// A message fails temporarily in different ways. Others are handled; it is parked with its key, is listed,
// and becomes a dead letter in the end.
func TestTransientFailuresBlockNoOtherKey(t *testing.T) {
	t.Parallel()
	sleeps := func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "SELECT pg_sleep(25)")
		return err
	}
	raises := func(code string) func(context.Context, pgx.Tx) error {
		return func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "DO $$ BEGIN RAISE 'so' USING ERRCODE = '"+code+"'; END $$")
			return err
		}
	}
	// The deadline passes while the statement runs. If it passes before, on a busy machine, the transaction
	// stays intact: such a failure is charged.
	within := func(wrap string) func(context.Context, pgx.Tx) error {
		return func(ctx context.Context, tx pgx.Tx) (err error) {
			for ms := 10; !tx.Conn().IsClosed() && ms < 20_000; ms *= 2 {
				short, cancel := context.WithTimeout(ctx, time.Duration(ms)*time.Millisecond)
				err = sleeps(short, tx)
				cancel()
			}
			return fmt.Errorf(wrap, err)
		}
	}
	for name, fails := range map[string]func(context.Context, pgx.Tx) error{
		"an outage that is claimed": func(context.Context, pgx.Tx) error {
			return skald.Outage(errService)
		},
		"a timeout of its own": within("insert: %w"),
		"the same, as text":    within("insert: %v"),
		"a statement that was cancelled": func(ctx context.Context, tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = '20ms'"); err != nil {
				return err
			}
			return sleeps(ctx, tx)
		},
		"a serialization failure": raises("40001"),
		"a deadlock":              raises("40P01"),
		"a lock":                  raises("55P03"),
		"a transaction timeout":   raises("25P04"),
		"an idle transaction that the server ended": func(ctx context.Context, tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "SET LOCAL idle_in_transaction_session_timeout = '10ms'"); err != nil {
				return err
			}
			time.Sleep(50 * time.Millisecond)
			return sleeps(ctx, tx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each waits
			stopsNobodyElse(t, onPostgres(t), asHandler(fails))
		})
	}
	if !need.Full() {
		return // those below wait for leases and for the pool to replace connections: a minute
	}
	open, late := onPostgres(t), within("insert: %v")
	t.Run("the intent of a call", func(t *testing.T) { stopsNobodyElse(t, open, asCall(late, nil, nil)) })
	t.Run("a call", func(t *testing.T) {
		stopsNobodyElse(t, open, asCall(nil, func() error { return skald.Outage(errService) }, nil))
	})
	t.Run("the settling of a call", func(t *testing.T) {
		stopsNobodyElse(t, open, asCall(nil, nil, raises("40P01")))
	})
	t.Run("a step", func(t *testing.T) { stopsNobodyElse(t, open, asStep(late)) })
}

// handling registers a handler that fails for the message "bad", and counts the other messages.
type handling func(in *inbox.Inbox[pgx.Tx], handled *atomic.Int64)

type failing func(context.Context, pgx.Tx) error

func (f failing) at(ctx context.Context, tx pgx.Tx, value string) error {
	if f == nil || value != "bad" {
		return nil
	}
	return f(ctx, tx)
}

func asHandler(fails failing) handling {
	return func(in *inbox.Inbox[pgx.Tx], handled *atomic.Int64) {
		inbox.On(in, said, func(ctx context.Context, tx pgx.Tx, m skald.Received[string]) error {
			if err := fails.at(ctx, tx, m.Value); err != nil {
				return err
			}
			handled.Add(1)
			return nil
		})
	}
}

func asStep(fails failing) handling {
	return func(in *inbox.Inbox[pgx.Tx], handled *atomic.Int64) {
		step := inbox.NewStep(in, "charge", func(m skald.Received[string]) string { return m.ID })
		inbox.DoOn(step, said, func(ctx context.Context, tx pgx.Tx,
			m skald.Received[string]) (inbox.Result, error) {
			if err := fails.at(ctx, tx, m.Value); err != nil {
				return inbox.Result{}, err
			}
			handled.Add(1)
			return inbox.Result{}, nil
		}, inbox.IfBarred(func(skald.Received[string]) []skald.Draft { return nil }))
	}
}

func asCall(intent failing, do func() error, settle failing) handling {
	return func(in *inbox.Inbox[pgx.Tx], handled *atomic.Int64) {
		inbox.OnCall(in, said, call.Call[pgx.Tx, string, string, string]{
			At: call.NewProvider("bank", nil),
			Intent: func(ctx context.Context, tx pgx.Tx, m skald.Received[string]) (string, string, error) {
				return m.Value, m.ID, intent.at(ctx, tx, m.Value)
			},
			Do: func(_ context.Context, value, _ string) (string, error) {
				if do != nil && value == "bad" {
					return "", do()
				}
				return value, nil
			},
			Settle: func(ctx context.Context, tx pgx.Tx, m skald.Received[string],
				_ call.Outcome[string]) error {
				if err := settle.at(ctx, tx, m.Value); err != nil {
					return err
				}
				handled.Add(1)
				return nil
			},
		})
	}
}

func stopsNobodyElse(t *testing.T, open opening[pgx.Tx], handle handling) {
	const bad, good = 6, 100
	w := newWorld(t, 2)
	g := open(w)
	clock, handled := &ticking{}, atomic.Int64{}
	in := inbox.New(g.db, w.bus, "stock", &inbox.Options{Now: clock.now,
		Logger: slog.New(slog.DiscardHandler), Limits: inbox.Limits{Unacknowledged: 100},
		Retry: inbox.Retry{InitialInterval: 5 * time.Millisecond, MaxInterval: 200 * time.Millisecond,
			Attempts: 2}})
	handle(in, &handled)
	for i := range bad {
		w.publish(w.message(fmt.Sprint("bad", i), "bad"), w.message(fmt.Sprint("bad", i), "behind"))
	}
	for i := range good {
		w.publish(w.message(fmt.Sprint("good", i), "good"))
	}
	stop := run(t, in)
	kept := func(dead bool) []store.Parked {
		all, err := store.ListParked(t.Context(), g.db,
			store.ParkedQuery{Consumer: "stock", Failed: true, Dead: &dead})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	// a handler that shares a transaction with a bad one runs twice
	until(t, "the good messages", func() bool { return in.Health().Handled == good && w.acknowledged() })
	passed := time.Duration(0)
	until(t, "the bad ones in the store, and listed", func() bool {
		if passed < 5*time.Minute { // a slow machine counts rarely; attempts are charged after 10 minutes
			passed += time.Second
			clock.pass(time.Second)
		}
		return len(kept(false)) == bad && len(in.Health().Stuck) == bad
	})
	for _, p := range kept(false) {
		if p.Attempts != 0 {
			t.Errorf("%s is charged %d attempts immediately", p.ID, p.Attempts)
		}
	}
	if h := in.Health(); !h.Ready || h.Stopped != "" || !h.Stuck[0].Uncounted || h.Failures == 0 {
		t.Errorf("%+v", h)
	}
	clock.pass(11 * time.Minute)
	until(t, "the dead letters", func() bool { return len(kept(true)) == bad })
	if n := in.Health().Handled; n != good {
		t.Errorf("%d messages were handled: those behind a dead letter wait", n)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// While the database is unavailable, for any time, no failure counts and no message starts. Then the consumer
// continues.
func TestNothingIsChargedWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	c := need.NewCluster(t)
	pool, err := pgxpool.New(t.Context(), c.URL("postgres"))
	if err == nil {
		t.Cleanup(pool.Close)
		_, err = pgstore.Migrate(t.Context(), pool, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	w, db := newWorld(t, 2), pgstore.New(pool, nil)
	clock, handled, tries := &ticking{}, atomic.Int64{}, atomic.Int64{}
	in := inbox.New(db, w.bus, "stock", &inbox.Options{Now: clock.now, Logger: slog.New(slog.DiscardHandler),
		Retry: inbox.Retry{InitialInterval: 5 * time.Millisecond, MaxInterval: 20 * time.Millisecond,
			Attempts: 1}})
	inbox.On(in, said, func(_ context.Context, _ pgx.Tx, m skald.Received[string]) error {
		if m.Value == "bad" {
			tries.Add(1)
			return skald.Outage(errService)
		}
		handled.Add(1)
		return nil
	})
	w.publish(w.message("bad", "bad"), w.message("k", "1"))
	stop := run(t, in)
	until(t, "a message, and the bad one parked", func() bool {
		return handled.Load() == 1 && in.Health().Parkings == 1
	})
	c.Stop("immediate")
	for i := range 100 {
		w.publish(w.message(fmt.Sprint("k", i), "2"))
	}
	until(t, "the probe to fail", func() bool { return db.Probe(t.Context()) != nil })
	time.Sleep(time.Second) // the consumer notices it, too
	clock.pass(time.Hour)
	before := tries.Load()
	c.Start()
	until(t, "all messages", func() bool { return handled.Load() >= 101 && w.acknowledged() })
	until(t, "more attempts at the bad one", func() bool { return tries.Load() > before+2 })
	kept, err := store.ListParked(t.Context(), db, store.ParkedQuery{Consumer: "stock"})
	if err != nil || len(kept) != 1 || kept[0].Attempts != 0 || kept[0].Dead != nil {
		t.Errorf("kept: %+v, %v", kept, err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}
