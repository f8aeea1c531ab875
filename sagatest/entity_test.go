package sagatest_test

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
	"github.com/skald-go/skald/store/pgstore"
	"github.com/skald-go/skald/store/sqlitestore"
)

var entityTries = flag.Int("entity.tries", 400,
	"how often an order is updated and cancelled at the same time")

// account is an entity that handlers read, change in memory and write back. Without protection, a write
// between the read and the write of a handler is lost.
type account struct{ version, updates, cancels int64 }

// accounts is the store of accounts.
type accounts[TTx any] struct {
	db    store.Driver[TTx]
	read  func(ctx context.Context, tx TTx, id string) (account, error)
	write func(ctx context.Context, tx TTx, id string, a account) error
	// guarded writes only if the version has not changed since the read.
	guarded func(ctx context.Context, tx TTx, id string, a account) (stood bool, err error)
	sums    func() (updates, cancels int64)
}

func memAccounts(*testing.T) accounts[*memstore.Tx] {
	db := memstore.New(nil)
	parse := func(text string) (a account) {
		_, _ = fmt.Sscan(text, &a.version, &a.updates, &a.cancels)
		return a
	}
	format := func(a account) string { return fmt.Sprint(a.version+1, a.updates, a.cancels) }
	return accounts[*memstore.Tx]{
		db: db,
		read: func(_ context.Context, tx *memstore.Tx, id string) (account, error) {
			text, _ := tx.Get(id)
			return parse(text), nil
		},
		write: func(_ context.Context, tx *memstore.Tx, id string, a account) error {
			return tx.Put(id, format(a))
		},
		guarded: func(_ context.Context, tx *memstore.Tx, id string, a account) (stood bool, err error) {
			err = tx.Update(id, func(old string, _ bool) string {
				if stood = parse(old).version == a.version; stood {
					return format(a)
				}
				return old
			})
			return stood, err
		},
		sums: func() (updates, cancels int64) {
			for _, text := range db.User() {
				a := parse(text)
				updates, cancels = updates+a.updates, cancels+a.cancels
			}
			return updates, cancels
		},
	}
}

const (
	makeAccounts = `CREATE TABLE %s (id text PRIMARY KEY, version bigint NOT NULL, updates bigint NOT NULL, cancels bigint NOT NULL)`
	fillAccounts = `INSERT INTO %s VALUES ($1, 0, 0, 0)`
	readAccount  = `SELECT version, updates, cancels FROM %s WHERE id = $1`
	writeAccount = `UPDATE %s SET version = version + 1, updates = $2, cancels = $3 WHERE id = $1`
	sumAccounts  = `SELECT CAST(SUM(updates) AS bigint), CAST(SUM(cancels) AS bigint) FROM %s`
)

func pgAccounts(t *testing.T) accounts[pgx.Tx] {
	t.Helper()
	pool, schema := fewConnections(t, 20)
	ctx, in := t.Context(), func(q string) string { return fmt.Sprintf(q, schema+".accounts") }
	if _, err := pool.Exec(ctx, in(makeAccounts)); err != nil {
		t.Fatal(err)
	}
	for i := range accountCount {
		if _, err := pool.Exec(ctx, in(fillAccounts), accountID(i)); err != nil {
			t.Fatal(err)
		}
	}
	return accounts[pgx.Tx]{
		db: pgstore.New(pool, &pgstore.Options{Schema: schema}),
		read: func(ctx context.Context, tx pgx.Tx, id string) (a account, err error) {
			return a, tx.QueryRow(ctx, in(readAccount), id).Scan(&a.version, &a.updates, &a.cancels)
		},
		write: func(ctx context.Context, tx pgx.Tx, id string, a account) error {
			_, err := tx.Exec(ctx, in(writeAccount), id, a.updates, a.cancels)
			return err
		},
		guarded: func(ctx context.Context, tx pgx.Tx, id string, a account) (bool, error) {
			tag, err := tx.Exec(ctx, in(writeAccount)+" AND version = $4", id, a.updates,
				a.cancels, a.version)
			return tag.RowsAffected() == 1, err
		},
		sums: func() (updates, cancels int64) {
			if err := pool.QueryRow(ctx, in(sumAccounts)).Scan(&updates, &cancels); err != nil {
				t.Error(err)
			}
			return updates, cancels
		},
	}
}

func sqliteAccounts(t *testing.T) accounts[*sql.Tx] {
	t.Helper()
	db, err := sqlitestore.Open(filepath.Join(scratch(t), "accounts.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	ctx, in := t.Context(), func(q string) string { return fmt.Sprintf(q, "accounts") }
	if _, err := sqlitestore.Migrate(ctx, db, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(ctx, in(makeAccounts)); err != nil {
		t.Fatal(err)
	}
	for i := range accountCount {
		if _, err := db.ExecContext(ctx, in(fillAccounts), accountID(i)); err != nil {
			t.Fatal(err)
		}
	}
	return accounts[*sql.Tx]{
		db: sqlitestore.New(db, nil),
		read: func(ctx context.Context, tx *sql.Tx, id string) (a account, err error) {
			return a, tx.QueryRowContext(ctx, in(readAccount), id).Scan(&a.version, &a.updates, &a.cancels)
		},
		write: func(ctx context.Context, tx *sql.Tx, id string, a account) error {
			_, err := tx.ExecContext(ctx, in(writeAccount), id, a.updates, a.cancels)
			return err
		},
		guarded: func(ctx context.Context, tx *sql.Tx, id string, a account) (bool, error) {
			res, err := tx.ExecContext(ctx, in(writeAccount)+" AND version = $4", id, a.updates,
				a.cancels, a.version)
			if err != nil {
				return false, err
			}
			n, err := res.RowsAffected()
			return n == 1, err
		},
		sums: func() (updates, cancels int64) {
			if err := db.QueryRowContext(ctx, in(sumAccounts)).Scan(&updates, &cancels); err != nil {
				t.Error(err)
			}
			return updates, cancels
		},
	}
}

const accountCount = 5

func accountID(i int) string { return fmt.Sprint("order-", i%accountCount) }

// way is a protection against lost updates.
type way string

const (
	byLock    way = "lock"    // Options.Transaction.Entities: the default
	byVersion way = "version" // the version is compared at the write, with skald.RetryNow
	byNothing way = "nothing"
)

// TestNoLostUpdate: updates and cancellations of the same orders arrive on two topics, at two consumers
// with two instances each. No update is lost, with locked entities and with compared versions. Half of the
// handlers name their entities in the opposite order, and there is no deadlock. On SQLite transactions run
// one after the other, so there are no conflicts. Use -entity.tries=200000 for a longer run.
func TestNoLostUpdate(t *testing.T) {
	for _, w := range []way{byLock, byVersion} {
		t.Run("memory by "+string(w), func(t *testing.T) { noLostUpdate(t, memAccounts(t), w) })
		t.Run("SQLite by "+string(w), func(t *testing.T) { noLostUpdate(t, sqliteAccounts(t), w) })
		t.Run("PostgreSQL by "+string(w), func(t *testing.T) { noLostUpdate(t, pgAccounts(t), w) })
	}
}

func noLostUpdate[TTx any](t *testing.T, a accounts[TTx], w way) {
	n := *entityTries
	if testing.Short() {
		n = min(n, 100)
	}
	bus := clash(t, n)
	db := &deadlocks[TTx]{Driver: a.db}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var ins []skald.Runner
	var handled []func() int64
	for range 2 {
		for _, topic := range []string{"updates", "cancels"} {
			in := a.consumer(db, bus, topic, w)
			ins, handled = append(ins, in), append(handled, func() int64 { return in.Health().Handled })
		}
	}
	done := make(chan error, 1)
	go func() { done <- skald.Run(ctx, ins...) }()
	deadline := time.Now().Add(5*time.Minute + time.Duration(n)*10*time.Millisecond)
	for all := int64(0); all < int64(2*n); {
		all = 0
		for _, h := range handled {
			all += h()
		}
		select {
		case err := <-done:
			t.Fatalf("they ended: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d messages are handled", all, 2*n)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if updates, cancels := a.sums(); updates != int64(n) || cancels != int64(n) {
		t.Errorf("%d updates and %d cancellations are left of %d each", updates, cancels, n)
	}
	if n := db.seen.Load(); n > 0 {
		t.Errorf("%d deadlocks", n)
	}
}

// clash returns a broker with n messages in each of two topics. All of them are about the same few orders.
func clash(t *testing.T, n int) *membroker.Broker {
	t.Helper()
	bus := membroker.New(nil)
	if err := bus.MakeTopics(t.Context(), 4, "updates", "cancels"); err != nil {
		t.Fatal(err)
	}
	for _, topic := range []string{"updates", "cancels"} {
		var ms []skald.Message
		for i := range n {
			ms = append(ms, skald.Message{ID: fmt.Sprint(topic, i), Source: "/shop", Topic: topic,
				Type: topic, Key: []byte(accountID(i)), Data: []byte("1")})
		}
		if err := bus.Publish(t.Context(), ms).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return bus
}

func (a accounts[TTx]) consumer(db store.Driver[TTx], bus *membroker.Broker, topic string,
	w way) *inbox.Inbox[TTx] {
	o := &inbox.Options{Logger: slog.New(slog.DiscardHandler),
		Retry: inbox.Retry{InitialInterval: time.Millisecond, MaxInterval: 20 * time.Millisecond,
			Attempts: 1000}}
	if w == byLock {
		o.Transaction.Entities = func(m skald.Message) []store.Lock {
			// from ten customers
			locks := []store.Lock{{Space: "order", Key: string(m.Key)},
				{Space: "customer", Key: m.ID[len(m.ID)-1:]}}
			if topic == "cancels" {
				locks[0], locks[1] = locks[1], locks[0]
			}
			return locks
		}
	}
	in := inbox.New(db, bus.Client(), topic, o)
	in.Handle(topic, topic, func(ctx context.Context, tx TTx, m skald.Message) error {
		was, err := a.read(ctx, tx, string(m.Key))
		if err != nil {
			return err
		}
		if topic == "updates" {
			was.updates++
		} else {
			was.cancels++
		}
		if w != byVersion {
			return a.write(ctx, tx, string(m.Key), was)
		}
		stood, err := a.guarded(ctx, tx, string(m.Key), was)
		if err == nil && !stood {
			return skald.RetryNow(errors.New("the order is not as it was read"))
		}
		return err
	})
	return in
}

// deadlocks counts the deadlocks that the database ended.
type deadlocks[TTx any] struct {
	store.Driver[TTx]
	seen atomic.Int64
}

func (d *deadlocks[TTx]) count(err error) {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "40P01" {
		d.seen.Add(1)
	}
}

func (d *deadlocks[TTx]) Outage(err error) bool {
	d.count(err)
	return d.Driver.Outage(err)
}

func (d *deadlocks[TTx]) Begin(ctx context.Context, in store.Intake) (store.Unit[TTx], error) {
	u, err := d.Driver.Begin(ctx, in)
	return deadlocked[TTx]{u, d}, err
}

type deadlocked[TTx any] struct {
	store.Unit[TTx]
	d *deadlocks[TTx]
}

// Found hides that the next unit could begin with the commit, because such a unit would not be wrapped.
func (u deadlocked[TTx]) Found() store.Found {
	f := u.Unit.Found()
	f.Follows = false
	return f
}

func (u deadlocked[TTx]) Outage(ctx context.Context, err error) bool {
	u.d.count(err)
	return u.Unit.Outage(ctx, err)
}

// TestLostUpdateIsDetected: two handlers both read before either writes. Without protection one update is
// lost; with versions the later handler is called again. So the test above can find a lost update.
func TestLostUpdateIsDetected(t *testing.T) {
	for _, c := range []struct {
		w    way
		left int64 // of two
		runs int64
	}{{byNothing, 1, 2}, {byVersion, 2, 3}} {
		t.Run("memory by "+string(c.w),
			func(t *testing.T) { lostUpdate(t, memAccounts(t), c.w, c.left, c.runs) })
		t.Run("PostgreSQL by "+string(c.w),
			func(t *testing.T) { lostUpdate(t, pgAccounts(t), c.w, c.left, c.runs) })
	}
}

func lostUpdate[TTx any](t *testing.T, a accounts[TTx], w way, left, runs int64) {
	bus := clash(t, 1)
	var ran atomic.Int64
	var meet sync.WaitGroup
	meet.Add(2)
	read := a.read
	a.read = func(ctx context.Context, tx TTx, id string) (account, error) {
		was, err := read(ctx, tx, id)
		if ran.Add(1) <= 2 {
			meet.Done()
			meet.Wait()
		}
		return was, err
	}
	var both sync.WaitGroup
	for _, topic := range []string{"updates", "cancels"} {
		in := a.consumer(a.db, bus, topic, w)
		both.Go(func() {
			for in.Health().Handled == 0 {
				if _, err := in.Step(t.Context()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	both.Wait()
	updates, cancels := a.sums()
	if updates+cancels != left || ran.Load() != runs {
		t.Errorf("%d and %d of both are left after %d runs, want %d after %d", updates, cancels,
			ran.Load(), left, runs)
	}
}

// TestWaitForAnEntityBecomesLater: a message waits for a locked entity at most for Options.Timeouts.Wait.
// Then the message is retried later, without counting an attempt. Until the retry it holds no connection, and
// messages of other entities continue.
func TestWaitForAnEntityBecomesLater(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		waitBecomesLater(t, memAccounts(t), func() int32 { return 1 })
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		pool, schema := fewConnections(t, 6)
		waitBecomesLater(t, accounts[pgx.Tx]{db: pgstore.New(pool, &pgstore.Options{Schema: schema})},
			func() int32 { return pool.Stat().AcquiredConns() })
	})
}

func waitBecomesLater[TTx any](t *testing.T, a accounts[TTx], connections func() int32) {
	bus := clash(t, 20)
	busy := func(m skald.Message) bool { return string(m.Key) == accountID(0) }
	rival, err := a.db.Begin(t.Context(),
		store.Intake{Locks: []store.Lock{{Space: "order", Key: accountID(0)}}})
	if err != nil {
		t.Fatal(err)
	}
	in := inbox.New(a.db, bus, "updates", &inbox.Options{
		Workers: 2, Timeouts: inbox.Timeouts{Wait: 30 * time.Millisecond},
		Retry: inbox.Retry{InitialInterval: time.Millisecond}, Logger: slog.New(slog.DiscardHandler),
		Transaction: inbox.Transaction{Entities: func(m skald.Message) []store.Lock {
			return []store.Lock{{Space: "order", Key: string(m.Key)}}
		}},
	})
	var free, held atomic.Int64
	in.Handle("updates", "updates", func(_ context.Context, _ TTx, m skald.Message) error {
		if busy(m) {
			held.Add(1)
		} else {
			free.Add(1)
		}
		return nil
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- in.Run(ctx) }()
	eventually := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.Now().Add(5 * time.Minute); !ok(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("timed out: %s: %+v", what, in.Health())
			}
		}
	}
	eventually("the other orders' messages", func() bool { return free.Load() == 16 })
	eventually("a moment in which only the rival has a connection", func() bool { return connections() <= 1 })
	if held.Load() != 0 {
		t.Error("a handler ran next to the rival")
	}
	if err := rival.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually("the messages of the order that was busy", func() bool { return held.Load() == 4 })
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if h := in.Health(); h.Dead != 0 {
		t.Errorf("%+v", h)
	}
	if kept, err := store.ListParked(context.Background(), a.db,
		store.ParkedQuery{Consumer: "updates", Limit: 10}); err != nil || len(kept) != 0 {
		t.Errorf("kept %+v, %v", kept, err)
	}
}
