package httpidem_test

import (
	"context"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald/httpidem"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
)

// All connections of a pool are dead but stay open; new connections work. One request detects that and gets
// 503. The other requests get new connections, also if the pool does not ping its idle connections.
func TestDeadConnectionsCostOneRequest(t *testing.T) {
	for name, ping := range map[string]bool{"pinged": true, "not pinged": false} {
		t.Run(name, func(t *testing.T) {
			const conns = 4
			direct, schema := postgres(t, 4)
			at, err := url.Parse(need.Postgres(t))
			if err != nil {
				t.Fatal(err)
			}
			proxy := need.NewProxy(t, at.Host)
			config := direct.Config()
			config.MaxConns = conns
			config.ConnConfig.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "tcp", proxy.Addr())
			}
			config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return ping }
			pool, err := pgxpool.NewWithConfig(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { proxy.Set(need.Refuse); pool.Close() })
			db := pgstore.New(pool, &pgstore.Options{Schema: schema})
			o := quiet()
			o.Wait = 100 * time.Millisecond
			var runs atomic.Int64
			h := httpidem.Handle(db, "dead", httpidem.OneTenant, o,
				func(context.Context, pgx.Tx, httpidem.Request[order]) (httpidem.Reply[string], error) {
					runs.Add(1)
					return httpidem.OK("done"), nil
				})
			answers(t, post{key: "first", body: "{}"}.to(h), 200, "done")
			var us []store.Unit[pgx.Tx]
			for range conns {
				u, err := db.Begin(t.Context(), store.Intake{})
				if err != nil {
					t.Fatal(err)
				}
				us = append(us, u)
			}
			for _, u := range us {
				if _, err := u.Rollback(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if n := proxy.Deaden(); n < conns {
				t.Fatalf("%d connections were open", n)
			}
			runs.Store(0)
			refused := 0
			for _, key := range []string{"a", "b", "c", "d", "e"} {
				p := post{key: key, body: "{}"}
				w := p.to(h)
				if w.Code == 503 {
					refused++
					w = p.to(h)
				}
				answers(t, w, 200, "done")
			}
			if refused > 1 || runs.Load() != 5 {
				t.Errorf("%d requests were answered 503, and %d handlers ran", refused, runs.Load())
			}
		})
	}
}
