package pgstore_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
)

// linked is a consumer and a relay that reach their database through a proxy.
type linked struct {
	*testing.T
	proxy   *need.Proxy
	bus     *membroker.Broker
	schema  string
	direct  *pgxpool.Pool // not through the proxy
	through *pgxpool.Pool
	log     journal
	sent    int
}

// throughProxy returns the URL of a server behind the proxy.
func throughProxy(t *testing.T, p *need.Proxy, at string) string {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = p.Addr()
	return u.String()
}

func hostOf(t *testing.T, at string) string {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort(u.Hostname(), u.Port())
}

func newLinked(t *testing.T, at string) *linked {
	l := &linked{T: t, proxy: need.NewProxy(t, hostOf(t, at)),
		schema: "link_" + strings.ToLower(rand.Text()[:10]),
		bus:    membroker.New(&membroker.Options{Partitions: 4, Retain: -1})}
	ctx := context.Background()
	open := func(at string) *pgxpool.Pool {
		pool, err := pgxpool.New(ctx, at)
		if err != nil {
			t.Fatal(err)
		}
		return pool
	}
	l.direct, l.through = open(at), open(throughProxy(t, l.proxy, at))
	t.Cleanup(func() {
		l.proxy.Set(need.Refuse) // otherwise the pool waits for the end of dead connections
		l.through.Close()
		if _, err := l.direct.Exec(ctx, "DROP SCHEMA "+l.schema+" CASCADE"); err != nil {
			t.Error(err)
		}
		l.direct.Close()
	})
	if _, err := pgstore.Migrate(ctx, l.direct, &pgstore.MigrateOptions{Schema: l.schema}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.direct.Exec(ctx, "CREATE TABLE "+l.schema+".effect (id text)"); err != nil {
		t.Fatal(err)
	}
	if err := l.bus.MakeTopics(ctx, 0, "orders", "told"); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *linked) options() *pgstore.Options {
	return &pgstore.Options{Schema: l.schema, Patience: 600 * time.Millisecond}
}

// run runs components until the test ends.
func (l *linked) run(rs ...skald.Runner) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, r := range rs {
		wg.Go(func() {
			if err := r.Run(ctx); err != nil {
				l.Errorf("it ended: %v", err)
			}
		})
	}
	l.Cleanup(func() { cancel(); wg.Wait() })
}

// consumer returns an inbox whose handler stores each message in the database and writes one.
func consumer[TTx any](l *linked, db store.Driver[TTx],
	note func(ctx context.Context, tx TTx, sql, id string) error) *inbox.Inbox[TTx] {
	in := inbox.New(db, l.bus.Client(), "stock", &inbox.Options{Workers: 4,
		Timeouts: inbox.Timeouts{Handle: 5 * time.Second, Wait: 500 * time.Millisecond, Drain: time.Second},
		Retry:    inbox.Retry{InitialInterval: 10 * time.Millisecond, MaxInterval: 100 * time.Millisecond},
		Logger:   slog.New(slog.NewTextHandler(&l.log, nil))})
	out := outbox.New(db, nil)
	in.Handle("orders", "said", func(ctx context.Context, tx TTx, m skald.Message) error {
		if err := note(ctx, tx, "INSERT INTO "+l.schema+".effect VALUES ($1)", m.ID); err != nil {
			return err
		}
		return out.Write(ctx, tx, skald.Draft{Topic: "told", Type: "told", Key: m.Key, Value: m.ID})
	})
	return in
}

// say publishes n messages of different keys.
func (l *linked) say(n int) {
	l.Helper()
	var ms []skald.Message
	for range n {
		l.sent++
		ms = append(ms, skald.Message{ID: fmt.Sprint("m-", l.sent), Source: "/other", Topic: "orders",
			Type: "said", Key: fmt.Append(nil, "k", l.sent), Data: []byte("{}")})
	}
	if err := l.bus.Publish(l.Context(), ms).Wait(l.Context()); err != nil {
		l.Fatal(err)
	}
}

// effects returns the number of messages that took effect, and of those that did twice.
func (l *linked) effects() (n, twice int) {
	l.Helper()
	if err := l.direct.QueryRow(context.Background(),
		"SELECT count(DISTINCT id), count(*) - count(DISTINCT id) FROM "+l.schema+".effect").Scan(&n, &twice); err != nil {
		l.Fatal(err)
	}
	return n, twice
}

func (l *linked) until(what string, ok func() bool) {
	l.Helper()
	for end := time.Now().Add(90 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			n, _ := l.effects()
			l.Fatalf("timeout: %s; %d of %d handled\n%s", what, n, l.sent, l.log.String())
		}
	}
}

func (l *linked) allHandled() {
	l.Helper()
	l.until("all are handled", func() bool { n, _ := l.effects(); return n == l.sent })
	if _, twice := l.effects(); twice > 0 {
		l.Errorf("%d messages took effect twice", twice)
	}
}

// published waits until the relay has published the handlers' messages.
func (l *linked) published(r *relay.Relay) {
	l.Helper()
	l.until("the outbox is published", func() bool { return r.Health().Published >= int64(l.sent) })
}

func noteByPgx(ctx context.Context, tx pgx.Tx, sql, id string) error {
	_, err := tx.Exec(ctx, sql, id)
	return err
}

func noteBySQL(ctx context.Context, tx *sql.Tx, statement, id string) error {
	_, err := tx.ExecContext(ctx, statement, id)
	return err
}

// TestDeadConnectionsAreClosed checks that the inbox and the relay replace connections that are dead but
// not closed, and continue. New connections work.
func TestDeadConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	t.Run("pgx", func(t *testing.T) {
		l := newLinked(t, need.Postgres(t))
		deadLinks(l, pgstore.New(l.through, l.options()), noteByPgx)
	})
	t.Run("database/sql", func(t *testing.T) {
		at := need.Postgres(t)
		l := newLinked(t, at)
		db, err := sql.Open("pgx", throughProxy(t, l.proxy, at))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		deadLinks(l, pgstore.NewSQL(db, l.options()), noteBySQL)
	})
}

func deadLinks[TTx any](l *linked, db store.Driver[TTx],
	note func(ctx context.Context, tx TTx, sql, id string) error) {
	r := relay.New(db, l.bus, &relay.Options{Logger: slog.New(slog.NewTextHandler(&l.log, nil))})
	l.run(consumer(l, db, note), r)
	l.say(20)
	l.allHandled()
	l.published(r)
	for range 2 {
		if l.proxy.Deaden() == 0 {
			l.Fatal("no connection was open")
		}
		l.say(20)
		l.allHandled()
		l.published(r)
	}
}

// TestCutStatementsLeaveThePool checks that a pool full of dead connections, whose statements the handler's
// timeouts aborted, has room again long before pgx ends them.
func TestCutStatementsLeaveThePool(t *testing.T) {
	t.Parallel()
	l := newLinked(t, need.Postgres(t))
	db := pgstore.New(l.through, l.options())
	var us []store.Unit[pgx.Tx]
	for range l.through.Config().MaxConns {
		u, err := db.Begin(t.Context(), store.Intake{})
		if err != nil {
			t.Fatal(err)
		}
		us = append(us, u)
	}
	l.proxy.Deaden()
	for _, u := range us {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if _, err := u.Tx().Exec(ctx, "SELECT 1"); err == nil {
			t.Error("a dead connection answered")
		}
		cancel()
		_, _ = u.Rollback(t.Context())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second) // pgx waits for 15 s
	defer cancel()
	u, err := db.Begin(ctx, store.Intake{})
	for err != nil && ctx.Err() == nil { // on a busy machine a try may end before its connection is ready
		u, err = db.Begin(ctx, store.Intake{})
	}
	if err != nil {
		t.Fatalf("the pool has no room: %v", err)
	}
	if _, err := u.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestConnectionsToAStandbyAreClosed checks that connections to a standby are not used any more when new
// ones reach the primary again, although they work.
func TestConnectionsToAStandbyAreClosed(t *testing.T) {
	t.Parallel()
	c := need.NewCluster(t, "fsync = off")
	standby := c.Standby()
	t.Run("pgx", func(t *testing.T) {
		l := newLinked(t, c.URL("postgres"))
		misled(l, c, standby, pgstore.New(l.through, l.options()), noteByPgx)
	})
	t.Run("database/sql", func(t *testing.T) {
		l := newLinked(t, c.URL("postgres"))
		db, err := sql.Open("pgx", throughProxy(t, l.proxy, c.URL("postgres")))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		misled(l, c, standby, pgstore.NewSQL(db, l.options()), noteBySQL)
	})
}

func misled[TTx any](l *linked, c, standby *need.Cluster, db store.Driver[TTx],
	note func(ctx context.Context, tx TTx, sql, id string) error) {
	primary := hostOf(l.T, l.direct.Config().ConnString())
	r := relay.New(db, l.bus, &relay.Options{Logger: slog.New(slog.NewTextHandler(&l.log, nil))})
	l.run(consumer(l, db, note), r)
	l.say(20)
	l.allHandled()
	l.published(r)
	lsn := c.SQL("postgres", "SELECT pg_current_wal_lsn()")
	l.until("the standby has the tables", func() bool {
		return standby.SQL("postgres", "SELECT pg_last_wal_replay_lsn() >= '"+lsn+"'") == "t"
	})
	l.proxy.Lead(hostOf(l.T, standby.URL("postgres")))
	l.proxy.Set(need.Refuse) // as in a fail-over
	l.proxy.Set(need.Pass)
	l.say(20)
	l.until("the log names the remedy", func() bool {
		return strings.Contains(l.log.String(), "target_session_attrs=read-write")
	})
	l.until("both stations are not ready", func() bool { return !r.Health().Ready })
	l.proxy.Lead(primary)
	l.allHandled()
	l.published(r)
}

// TestWriteOnAStandbyClosesTheConnection checks that a transaction of the user on a standby closes its
// connection.
func TestWriteOnAStandbyClosesTheConnection(t *testing.T) {
	t.Parallel()
	c := need.NewCluster(t, "fsync = off")
	l := newLinked(t, c.URL("postgres"))
	standby := c.Standby() // it has the tables
	out := outbox.New(pgstore.New(l.through, l.options()), nil)
	write := func() error {
		return pgx.BeginFunc(t.Context(), l.through, func(tx pgx.Tx) error {
			return out.Write(t.Context(), tx, skald.Draft{Topic: "told", Type: "told", Value: "x"})
		})
	}
	l.proxy.Lead(hostOf(t, standby.URL("postgres")))
	if err := write(); err == nil {
		t.Fatal("a standby took a write")
	}
	l.proxy.Lead(hostOf(t, c.URL("postgres")))
	if err := write(); err != nil {
		t.Errorf("the next transaction still leads to the standby: %v", err)
	}
}
