package sqlexec

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/internal/sqlfile"
)

// TestListenerLeavesADeadConnection checks that the listener replaces a dead connection, which does not end
// by itself.
func TestListenerLeavesADeadConnection(t *testing.T) {
	at, err := url.Parse(need.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	text, err := sqlfile.Load(statements, "sql", Placeholder)
	if err != nil {
		t.Fatal(err)
	}
	proxy := need.NewProxy(t, at.Host)
	through := *at
	through.Host = proxy.Addr()
	w := NewWake(&DB{Schema: "listener test", SQL: text}, false)
	l, err := Listen(through.String(), w)
	if err != nil {
		t.Fatal(err)
	}
	l.pingEvery, l.callMost = 100*time.Millisecond, 2*time.Second
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	woken := w.Woken()
	go func() { ended <- l.Run(ctx) }()
	await := func(what string, done <-chan struct{}) {
		t.Helper()
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Fatal(what)
		}
	}
	await("it does not listen", woken)

	woken = w.Woken()
	time.Sleep(5 * l.pingEvery)
	select {
	case <-woken:
		t.Fatal("a connection that works is given up")
	default:
	}
	proxy.Deaden()
	await("it stays on a dead connection", woken)
	woken = w.Woken()
	conn, err := pgx.Connect(t.Context(), at.String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "SELECT pg_notify($1, $2)", channel, w.pg.Schema); err != nil {
		t.Error(err)
	}
	_ = conn.Close(t.Context())
	await("it does not hear on the new connection", woken)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
