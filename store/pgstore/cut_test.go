package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
)

// cut makes a process die at the n-th write to the server, on any connection. Before: the write does not
// arrive. After: it takes effect, and its result is lost. With n 0 the process lives, and cut counts.
type cut struct {
	n     int
	after bool

	mu   sync.Mutex
	sent int
	dead bool
}

var errCut = errors.New("the process has died")

// send counts a write. It returns whether the write arrives, and whether the process lives on.
func (c *cut) send() (arrives, sessions bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return false, false
	}
	c.sent++
	c.dead = c.sent == c.n
	return !c.dead || c.after, !c.dead
}

// cutConn is one connection of a process that dies. A write is one statement or one pipeline.
type cutConn struct {
	net.Conn
	c     *cut
	begun bool // the start of a session is not counted
	last  bool
}

func (w *cutConn) Write(b []byte) (int, error) {
	if !w.begun {
		return w.Conn.Write(b)
	}
	arrives, sessions := w.c.send()
	if !arrives {
		_ = w.Conn.Close()
		return 0, errCut
	}
	w.last = !sessions
	return w.Conn.Write(b)
}

// Read waits for the result of the last write, so that it took effect, and then drops it.
func (w *cutConn) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if w.last {
		_ = w.Conn.Close()
		return 0, errCut
	}
	return n, err
}

// mortalPool returns a pool of a process that dies at c.
func (m *mover) mortalPool(c *cut) *pgxpool.Pool {
	m.Helper()
	o, err := pgxpool.ParseConfig(m.URL("shop"))
	if err != nil {
		m.Fatal(err)
	}
	o.MaxConns = 1
	dial := o.ConnConfig.DialFunc
	var conn *cutConn
	o.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		raw, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		conn = &cutConn{Conn: raw, c: c}
		return conn, nil
	}
	pool, err := pgxpool.NewWithConfig(m.Context(), o)
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(pool.Close)
	if err := pool.Ping(m.Context()); err != nil {
		m.Fatal(err)
	}
	// a connection that is opened later belongs to a dead process, or to one that never dies
	conn.begun = true
	return pool
}

// everyCut runs act in a process that dies at each of its writes, before and after. Of those that are not
// among the last it tries one in stride, unless need.Full requests each. prepare creates the database, and
// check examines the result.
func (m *mover) everyCut(stride int, prepare func(), act func(context.Context, *pgxpool.Pool) error,
	check func(what string)) {
	m.Helper()
	prepare()
	whole := &cut{}
	if err := act(m.Context(), m.mortalPool(whole)); err != nil {
		m.Fatalf("where nothing goes wrong: %v", err)
	}
	check("where nothing goes wrong")
	if whole.sent < 2 {
		m.Fatalf("only %d statements were seen", whole.sent)
	}
	every := need.Full()
	for n := 1; n <= whole.sent; n++ {
		if n%stride != 0 && n < whole.sent-1 && !every {
			continue
		}
		for _, after := range []bool{false, true} {
			what := fmt.Sprintf("cut at %d of %d, after %v", n, whole.sent, after)
			prepare()
			ctx, cancel := context.WithTimeout(m.Context(), longest)
			pool := m.mortalPool(&cut{n: n, after: after})
			_ = act(ctx, pool) // the result is lost
			cancel()
			pool.Close()
			check(what)
			if m.Failed() {
				m.Fatal(what)
			}
		}
	}
	m.Logf("%d statements", whole.sent)
}

// wentBack replaces the database by one that is behind a relay.
func (m *mover) wentBack() {
	m.Helper()
	_, err := m.db.Lease(m.Context(), store.LeaseRequest{Owner: "ghost", Session: "1", TTL: time.Millisecond,
		LastKnown: []store.Shard{{ID: 0, Epoch: 1 << 40, Token: "t"}}})
	if !errors.Is(err, store.ErrMoved) {
		m.Fatalf("the lease returned %v, want ErrMoved", err)
	}
}

// TestRecoverIsCutEverywhere checks a recover that dies at each of its statements, before or after it took
// effect, and runs again: all messages from before, during and after it are published in order.
// Interleaving 5.
func TestRecoverIsCutEverywhere(t *testing.T) {
	t.Parallel()
	m := newMover(t)
	m.everyCut(1,
		func() {
			m.say(7)
			m.carry()
			m.say(6)
			m.wentBack()
			m.say(3)
		},
		func(ctx context.Context, pool *pgxpool.Pool) error {
			_, err := pgstore.New(pool, nil).Recover(ctx, &store.Audit{Author: "ann", Action: "recover"})
			return err
		},
		func(what string) {
			m.say(3)
			if _, err := m.db.Recover(m.Context(),
				&store.Audit{Author: "ann", Action: "recover"}); err != nil {
				// it may be complete already
				m.Fatalf("%s: the second recover: %v", what, err)
			}
			m.nothingMoved()
			m.say(3)
			m.carry()
			m.whole()
			if again := m.repeated(); again > len(m.written) {
				m.Errorf("%s: %d messages were published twice", what, again)
			}
		})
}

// repeated returns the number of repeated messages.
func (m *mover) repeated() int {
	return len(m.got) - len(slices.Compact(slices.Sorted(slices.Values(m.got))))
}

func (m *mover) count(table string) (n int) {
	m.Helper()
	if err := m.pool.QueryRow(m.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
		m.Fatal(err)
	}
	return n
}

// TestRetentionIsCutEverywhere checks a retention that dies at each of its statements: unpublished rows
// stay, and the next run continues.
// Interleaving 5.
func TestRetentionIsCutEverywhere(t *testing.T) {
	t.Parallel()
	m := newMover(t)
	// the oldest at any hour of the day: the one before it may belong to tomorrow already
	slot := (time.Now().UnixMilli()/86_400_000 + 2) % 10
	old := func() {
		m.say(5)
		if _, err := m.pool.Exec(t.Context(), "UPDATE skald_outbox SET slot = $1 WHERE slot <> $1",
			slot); err != nil {
			t.Fatal(err)
		}
	}
	m.everyCut(2,
		func() {
			old()
			m.carry()
		},
		func(ctx context.Context, pool *pgxpool.Pool) error {
			_, err := pgstore.New(pool, nil).Maintain(ctx, store.Maintain{})
			return err
		},
		func(what string) {
			old() // these are not published yet, and are in the place of the others
			if _, err := m.db.Maintain(m.Context(), store.Maintain{}); err != nil {
				m.Fatalf("%s: the next retention: %v", what, err)
			}
			m.carry()
			m.whole()
			if _, err := m.db.Maintain(m.Context(), store.Maintain{}); err != nil {
				m.Fatalf("%s: the last retention: %v", what, err)
			}
			if n := m.count("skald_outbox"); n != 0 {
				m.Errorf("%s: %d rows that are published and old are still there", what, n)
			}
		})
}

// TestMigrationIsCutEverywhere checks a migration that dies at each of its statements, alone and next to
// another one: the next run completes it, and the tables work.
// Interleaving 5.
func TestMigrationIsCutEverywhere(t *testing.T) {
	t.Parallel()
	m := newMover(t)
	n, o := 0, &pgstore.MigrateOptions{}
	var beside sync.WaitGroup
	m.everyCut(6,
		func() {
			n++
			o = &pgstore.MigrateOptions{Schema: fmt.Sprintf("m%d", n)}
		},
		func(ctx context.Context, pool *pgxpool.Pool) error {
			if n%2 == 0 { // another one at the same time
				beside.Go(func() {
					if _, err := pgstore.Migrate(m.Context(), m.pool, o); err != nil {
						m.Errorf("the concurrent migration: %v", err)
					}
				})
			}
			_, err := pgstore.Migrate(ctx, pool, o)
			return err
		},
		func(what string) {
			beside.Wait()
			if _, err := pgstore.Migrate(m.Context(), m.pool, o); err != nil {
				m.Fatalf("%s: the next migration: %v", what, err)
			}
			left, err := pgstore.Pending(m.Context(), m.pool, o)
			s := pgstore.New(m.pool, &pgstore.Options{Schema: o.Schema})
			if err = errors.Join(err, s.Check(m.Context(), store.Relay),
				s.Check(m.Context(), store.App)); err != nil || len(left) > 0 {
				m.Fatalf("%s: %d migrations are left, %v", what, len(left), err)
			}
			for _, table := range []string{"skald_migration", "skald_shard"} {
				if have, want := m.count(o.Schema+"."+table), m.count("public."+table); have != want {
					m.Errorf("%s: %s has %d rows, want %d", what, table, have, want)
				}
			}
			if _, err := m.pool.Exec(t.Context(), "DROP SCHEMA "+o.Schema+" CASCADE"); err != nil {
				t.Fatal(err)
			}
		})
}
