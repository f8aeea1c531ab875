package pgstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/store"
)

// TestParkedWhileAUnitWaits checks a message that a rival parks while a unit waits for the lock of the key.
// The unit finishes the messages before it in an older snapshot. The parked message must become due.
// Interleaving 12.
func TestParkedWhileAUnitWaits(t *testing.T) {
	t.Parallel()
	need.Postgres(t)
	for name, level := range map[string]store.Isolation{"read committed": store.ReadCommitted,
		"repeatable read": store.RepeatableRead, "serializable": store.Serializable} {
		for _, before := range []int{1, 3} {
			t.Run(fmt.Sprint(name, "/pgx/", before), func(t *testing.T) {
				b := newBed(t)
				parkedWhileAUnitWaits[pgx.Tx](t, b, b.store(t), level, before)
			})
			t.Run(fmt.Sprint(name, "/database sql/", before), func(t *testing.T) {
				b := newBed(t)
				db := sqlSeat{b, nil, pgx.QueryExecModeCacheStatement}.Driver(t)
				parkedWhileAUnitWaits(t, b, db, level, before)
			})
		}
	}
}

// waiting is a query that reports whether $1 sessions wait for an advisory lock.
const waiting = `SELECT count(*) >= $1::integer FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
	AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`

func parkedWhileAUnitWaits[TTx any](t *testing.T, b *bed, db store.Driver[TTx], level store.Isolation,
	before int) {
	park := func(n int) store.Effect {
		m := aMessage("k")
		m.ID, m.Source = fmt.Sprint("m-", n), "/orders"
		return store.Effect{Park: &store.Park{Parked: store.Parked{Consumer: "stock",
			Identity: store.Identity{Source: m.Source, ID: m.ID}, Message: m}}}
	}
	for n := range before {
		if stored, err := db.Apply(t.Context(), park(n)); err != nil || !stored[0] {
			t.Fatal(stored, err)
		}
	}
	claimed := claimAll(t, db, before)

	// The rival waits for the lock first, and the unit second, with its snapshot taken.
	lock, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Rollback(context.Background()) }()
	if _, err := lock.Exec(t.Context(),
		b.q(`SELECT pg_advisory_xact_lock(key_lock) FROM {skald_parked} LIMIT 1`)); err != nil {
		t.Fatal(err)
	}
	parked, done := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := db.Apply(t.Context(), park(before))
		parked <- err
	}()
	b.until(t, "the rival waits", waiting, 1)
	go func() { done <- finishAll(t.Context(), db, level, claimed) }()
	b.until(t, "the unit waits", waiting, 2)
	if err := lock.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-parked; err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := one[int](t, b, `SELECT count(*) FROM {skald_mark}`); n != before {
		t.Errorf("%d marks exist, want %d", n, before)
	}
	claimAll(t, db, 1)
}

// TestQueueSettlesOnABusyPool checks that a unit above READ COMMITTED finishes its parked message before
// another user of the pool gets its connection.
func TestQueueSettlesOnABusyPool(t *testing.T) {
	t.Parallel()
	need.Postgres(t)
	b := newBed(t)
	pool := b.few(t, pgx.QueryExecModeCacheStatement, 1)
	db := New(pool, &Options{Schema: b.schema})
	m := aMessage("k")
	if _, err := db.Apply(t.Context(), store.Effect{Park: &store.Park{Parked: store.Parked{Consumer: "stock",
		Identity: store.Identity{Source: "/orders", ID: m.ID}, Message: m}}}); err != nil {
		t.Fatal(err)
	}
	p := claimAll(t, db, 1)[0]
	u, err := db.Begin(t.Context(), store.Intake{Isolation: store.RepeatableRead,
		Marks: []store.Mark{{Consumer: p.Consumer, Identity: p.Identity, Outcome: store.Done,
			KeyOrder: store.Retrying, Key: p.Message.Key, Attempts: p.Attempts}}})
	if err != nil {
		t.Fatal(err)
	}
	release, done := make(chan bool), make(chan bool)
	defer func() {
		close(release)
		<-done
	}()
	go func() { // another user of the pool waits for its connection, and keeps it
		defer close(done)
		if conn, err := pool.Acquire(context.Background()); err == nil {
			<-release
			conn.Release()
		}
	}()
	time.Sleep(10 * time.Millisecond)
	if err := u.Commit(t.Context(), store.Effect{Finish: &store.Finish{Consumer: p.Consumer,
		Identity: p.Identity, Attempts: &p.Attempts, Place: p.Place}}); err != nil {
		t.Fatal(err)
	}
	if n := one[int](t, b, `SELECT count(*) FROM {skald_parked}`); n != 0 {
		t.Errorf("%d finished messages are still parked", n)
	}
}

// claimAll claims the due messages of a key and those behind them.
func claimAll[TTx any](t *testing.T, db store.Driver[TTx], want int) []store.Parked {
	t.Helper()
	got, err := db.Claim(t.Context(), store.ClaimRequest{Consumer: "stock", Session: "life",
		ClaimSize: store.ClaimSize{Keys: 10, Prefetch: 10, PrefetchAll: 10}, Lease: time.Minute})
	if err != nil || len(got.Parked) != want {
		t.Fatalf("%d messages are claimed, want %d: %v", len(got.Parked), want, err)
	}
	return got.Parked
}

// finishAll handles claimed messages in one transaction.
func finishAll[TTx any](ctx context.Context, db store.Driver[TTx], level store.Isolation,
	ps []store.Parked) error {
	in := store.Intake{Isolation: level, Wait: time.Minute}
	var es []store.Effect
	for _, p := range ps {
		in.Marks = append(in.Marks, store.Mark{Consumer: p.Consumer, Identity: p.Identity,
			Outcome:  store.Done,
			KeyOrder: store.Retrying, Key: p.Message.Key, Attempts: p.Attempts})
		es = append(es, store.Effect{Finish: &store.Finish{Consumer: p.Consumer, Identity: p.Identity,
			Attempts: &p.Attempts, Place: p.Place}})
	}
	u, err := db.Begin(ctx, in)
	if err != nil {
		return err
	}
	for i, v := range u.Found().Marks {
		if v.Outcome != store.Fresh {
			return fmt.Errorf("message %d is %v", i, v.Outcome)
		}
	}
	return u.Commit(ctx, es...)
}
