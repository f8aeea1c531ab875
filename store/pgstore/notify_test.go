package pgstore

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// TestNotify checks that a write in one process wakes a listener in another, and that nothing else does.
func TestNotify(t *testing.T) {
	b, other := newBed(t), newBed(t)
	writes, quiet := New(b.pool, &Options{Schema: b.schema, Notify: true}),
		New(b.pool, &Options{Schema: b.schema})
	elsewhere := New(other.pool, &Options{Schema: other.schema, Notify: true})
	relay := b.store(t)
	l, err := relay.Listen(b.url)
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int64
	l.BeforeConnect = func(context.Context, *pgx.ConnConfig) error {
		if asked.Add(1) == 1 {
			return errors.New("no token yet")
		}
		return nil
	}
	woken := relay.Woken()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	await(t, "the listener listens", woken)

	say := func(s *Store) {
		t.Helper()
		tx, err := s.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Write(t.Context(), tx, store.Effect{Rows: []skald.Message{aMessage("a")}}); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	woken = relay.Woken()
	say(quiet)
	hears(t, b, other.schema, func() { say(elsewhere) })
	select {
	case <-woken:
		t.Error("woken by another schema, or by a store without notifications")
	default:
	}
	say(writes)
	await(t, "a write in another process", woken)
	woken = relay.Woken()
	b.exec(t, `SELECT pg_notify('skald_outbox', $1)`, b.schema)
	await(t, "a notification by hand", woken)

	// A lost connection is replaced, and the relay looks for rows written meanwhile.
	woken = relay.Woken()
	b.exec(t,
		`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'LISTEN skald_outbox' AND state = 'idle' AND datname = current_database()`)
	await(t, "a new connection", woken)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestListenForSeveralSchemas checks that one connection listens for several schemas, and that each relay
// is woken for its own.
func TestListenForSeveralSchemas(t *testing.T) {
	one, two := newBed(t), newBed(t)
	first, second := one.store(t), two.store(t)
	l, err := Listen(one.url, first, second)
	if err != nil {
		t.Fatal(err)
	}
	a, b := first.Woken(), second.Woken()
	go func() { _ = l.Run(t.Context()) }()
	await(t, "the listener listens for one", a)
	await(t, "and for the other", b)
	a, b = first.Woken(), second.Woken()
	one.exec(t, `SELECT pg_notify('skald_outbox', $1)`, two.schema)
	await(t, "a notification for the second", b)
	select {
	case <-a:
		t.Error("the first is woken, too")
	default:
	}
	one.exec(t, `SELECT pg_notify('skald_outbox', $1)`, one.schema)
	await(t, "a notification for the first", a)
	if _, err := Listen(one.url); err == nil {
		t.Error("Listen without a schema succeeded")
	}
}

func TestListenSaysWhatIsWrong(t *testing.T) {
	b := newBed(t)
	if _, err := b.store(t).Listen("postgres://u:secret@h:port/x"); err == nil ||
		strings.Contains(err.Error(), "secret") {
		t.Errorf("a wrong URL: %v", err)
	}
	l, err := b.store(t).Listen(b.url + "&dbname=skald_there_is_none")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Run(t.Context()); err == nil || sqlexec.SQLState(err) != "3D000" {
		t.Errorf("no such database: %v", err)
	}
}

// hears runs act and waits until the server has notified all listeners.
func hears(t *testing.T, b *bed, payload string, act func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), b.url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(t.Context(), "LISTEN skald_outbox -- to compare"); err != nil {
		t.Fatal(err)
	}
	act()
	for {
		n, err := conn.WaitForNotification(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n.Payload == payload {
			return
		}
	}
}

func await[T any](t *testing.T, what string, c <-chan T) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(5 * time.Minute):
		t.Fatal(what + " did not come")
	}
}
