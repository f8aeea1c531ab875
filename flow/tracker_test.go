package flow_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/flow"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
	"github.com/skald-go/skald/store/pgstore"
	"github.com/skald-go/skald/store/sqlitestore"
)

func event(name string) skald.Event[string] { return skald.Event[string]{Topic: "orders", Type: name} }

func placing(t *testing.T) *flow.Flow {
	t.Helper()
	f, err := flow.New("order", flow.From(event("placed")),
		flow.Then(event("placed"), event("taken"), event("declined")).Within(time.Minute),
		flow.Then(event("taken"), event("confirmed"), event("short")),
		flow.Then(event("short"), event("cancelled")), flow.Then(event("declined"), event("cancelled")),
		flow.Fail(event("declined"), event("short")), flow.Undo(event("taken"), event("refunded"),
			flow.AskOf(event("taken"), func(m skald.Received[string]) skald.Draft {
				return event("refund.asked").New("", m.ID) // the same, however often the tracker reads it
			})),
		flow.End(event("confirmed"), event("cancelled")))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// tracking is a driver that a tracker can use.
type tracking[TTx any] interface {
	store.Driver[TTx]
	store.Tracker[TTx]
}

func TestTracker(t *testing.T) {
	t.Run("memory", func(t *testing.T) { testTracker(t, tracking[*memstore.Tx](memstore.New(nil)), nil) })
	t.Run("sqlite", func(t *testing.T) {
		db, err := sqlitestore.Open(filepath.Join(t.TempDir(), "tracker.db"))
		if err == nil {
			t.Cleanup(func() { _ = db.Close() })
			_, err = sqlitestore.Migrate(t.Context(), db, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		testTracker(t, tracking[*sql.Tx](sqlitestore.New(db, nil)), func() error {
			_, err := db.ExecContext(t.Context(),
				"UPDATE skald_tracked SET drifted_at = drifted_at - 86400000")
			return err
		})
	})
	t.Run("postgres", func(t *testing.T) {
		pool, schema := onPostgres(t)
		testTracker(t, tracking[pgx.Tx](pgstore.New(pool, &pgstore.Options{Schema: schema})),
			aDayLater(t, pool, schema))
	})
	t.Run("postgres by database/sql", func(t *testing.T) {
		pool, schema := onPostgres(t)
		db := stdlib.OpenDBFromPool(pool)
		t.Cleanup(func() { _ = db.Close() })
		testTracker(t, tracking[*sql.Tx](pgstore.NewSQL(db, &pgstore.Options{Schema: schema})),
			aDayLater(t, pool, schema))
	})
}

func onPostgres(t *testing.T) (*pgxpool.Pool, string) {
	t.Helper()
	ctx, schema := context.Background(), "flow_"+strings.ToLower(rand.Text()[:10])
	pool, err := pgxpool.New(ctx, need.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := pool.Exec(ctx, "DROP SCHEMA IF EXISTS "+schema+" CASCADE"); err != nil {
			t.Error(err)
		}
		pool.Close()
	})
	if _, err := pgstore.Migrate(ctx, pool, &pgstore.MigrateOptions{Schema: schema}); err != nil {
		t.Fatal(err)
	}
	return pool, schema
}

// aDayLater returns a function that makes all drift one day older.
func aDayLater(t *testing.T, pool *pgxpool.Pool, schema string) func() error {
	return func() error {
		_, err := pool.Exec(t.Context(), "UPDATE "+schema+
			".skald_tracked SET drifted_at = drifted_at - interval '1 day'")
		return err
	}
}

// wantCounts checks the numbers of sagas of all flows.
func wantCounts(t *testing.T, db store.StatusReader, want ...store.TrackedCounts) {
	t.Helper()
	b, err := store.ReadBacklog(t.Context(), db)
	if err = errors.Join(err, b.Uncounted); err != nil || !slices.Equal(b.Tracked, want) {
		t.Errorf("counted %+v, %v, want %+v", b.Tracked, err, want)
	}
}

// testRivals checks that concurrent transactions that write the row of one saga, also a new row, lose no
// message.
func testRivals[TTx any](t *testing.T, db tracking[TTx]) {
	tracker := flow.NewTracker(placing(t), db,
		&flow.Options{Key: func(m skald.Message) string { return m.Subject }})
	names := []string{"placed", "taken", "short", "refunded", "cancelled"}
	errs := make(chan error, len(names))
	for i, name := range names {
		go func() {
			u, err := db.Begin(t.Context(), store.Intake{Wait: time.Minute})
			if err == nil {
				err = tracker.Handle(t.Context(), u.Tx(),
					[]skald.Message{{ID: fmt.Sprint("r-", i), Source: "/shop", Topic: "orders", Type: name,
						Subject: "rivals", Time: time.Now()}})
				if err == nil {
					err = u.Commit(t.Context())
				} else {
					_, _ = u.Rollback(t.Context())
				}
			}
			errs <- err
		}()
	}
	for range names {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	if all, err := flow.Find(t.Context(), db, "rivals"); err != nil || all[0].State != flow.Compensated ||
		len(all[0].Steps) != len(names) {
		t.Errorf("after rivals: %+v, %v", all, err)
	}
}

// testTracker checks the row of a saga whose events arrive through a broker, out of order and twice.
func testTracker[TTx any](t *testing.T, db tracking[TTx], dayLater func() error) {
	wantCounts(t, db)
	t.Run("rivals", func(t *testing.T) { testRivals(t, db) })
	ctx, bus := t.Context(), membroker.New(nil)
	if err := bus.MakeTopics(ctx, 4, "orders"); err != nil {
		t.Fatal(err)
	}
	tracker := flow.NewTracker(placing(t), db,
		&flow.Options{Key: func(m skald.Message) string { return m.Subject }})
	began, n := time.Now().Add(-time.Hour).UTC().Truncate(time.Millisecond), 0
	publish := func(saga string, names ...string) {
		t.Helper()
		for _, name := range names {
			n++
			at := began.Add(time.Duration(strings.Index(
				"placed taken short refunded cancelled confirmed archived", name)) * time.Second)
			m := skald.Message{ID: fmt.Sprint("m-", n), Source: "/shop", Topic: "orders", Type: name,
				Subject: saga, Key: []byte(fmt.Sprint(saga, n)), Time: at, Data: []byte(`""`)}
			if err := bus.Publish(ctx, []skald.Message{m, m}).Wait(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	drain := func(group string) {
		t.Helper()
		in := inbox.New(db, bus.Client(), group, &inbox.Options{Batch: 5})
		tracker.On(in)
		in.HandleBatch("orders", tracker.Handle, "archived")
		for busy, err := true, error(nil); busy; {
			if busy, err = in.Step(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if err := in.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
	find := func(key, want string) flow.SagaState {
		t.Helper()
		all, err := flow.Find(ctx, db, key)
		if err != nil || len(all) != 1 {
			t.Fatalf("%s: %v, %v", key, all, err)
		}
		s := all[0]
		var steps []flow.Name
		for _, step := range s.Steps {
			steps = append(steps, step.Name)
		}
		if got := fmt.Sprint(s.State, steps, s.Missing, s.Undo, s.Overdue); got != want ||
			s.Flow != "order" || s.Key != key || s.At.IsZero() || s.Changed.IsZero() {
			t.Fatalf("%s: %s, want %s", key, got, want)
		}
		return s
	}

	publish("o-1", "cancelled", "short")
	publish("o-2", "placed", "archived")
	drain("tracker")
	find("o-1", "compensating[short cancelled] [taken] [] false")
	if s := find("o-2", "running[placed archived] [] [] true"); len(s.Drift) != 1 || len(s.Keys) != 2 ||
		s.Waiting[0].Due.Sub(began) != time.Minute {
		t.Errorf("drift %q, keys %q, waiting %v", s.Drift, s.Keys, s.Waiting)
	}
	wantCounts(t, db, store.TrackedCounts{Flow: "order", Running: 1, Compensating: 1, Overdue: 1,
		OverdueKey: "o-2", Drifted: 1, DriftedKey: "o-2"})
	publish("o-1", "taken", "placed", "refunded")
	publish("o-2", "confirmed", "taken")
	drain("tracker")
	const done = "done[placed taken confirmed archived] [] [taken] false"
	find("o-1", "compensated[placed taken short refunded cancelled] [] [] false")
	find("o-2", done)
	wantCounts(t, db, store.TrackedCounts{Flow: "order", Drifted: 1, DriftedKey: "o-2"})
	if dayLater != nil {
		if err := dayLater(); err != nil {
			t.Fatal(err)
		}
		wantCounts(t, db, store.TrackedCounts{Flow: "order"})
	}

	before, err := store.ListTracked(ctx, db, store.TrackedQuery{})
	if err != nil || len(before) != 3 {
		t.Fatal(before, err)
	}
	drain("tracker again") // another group reads all of it once more
	after, err := store.ListTracked(ctx, db, store.TrackedQuery{Flow: "order"})
	if err != nil || fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("a rebuild changed the rows: %v\n%v\n%v", err, before, after)
	}
	if late, err := store.ListTracked(ctx, db, store.TrackedQuery{State: flow.Running}); err != nil ||
		len(late) != 0 {
		t.Errorf("running: %v, %v", late, err)
	}
	if _, err := flow.Find(ctx, db, "o-3"); !errors.Is(err, flow.ErrUnknown) {
		t.Errorf("of a saga that nobody heard of: %v", err)
	}

	publish("", "placed") // no key: a dead letter, not a silent loss
	drain("tracker")
	dead := true
	if kept, err := store.ListParked(ctx, db, store.ParkedQuery{Dead: &dead}); err != nil || len(kept) != 1 ||
		!strings.Contains(kept[0].Last.Why, "set flow.Options.Key") {
		t.Errorf("without a key: %+v, %v", kept, err)
	}
}
