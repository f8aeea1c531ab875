package httpidem_test

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald/httpidem"
	"github.com/skald-go/skald/store/pgstore"
)

// counted is a connection that counts its round trips: a write followed by a read.
type counted struct {
	net.Conn
	wrote atomic.Bool
	trips *atomic.Int64
}

func (c *counted) Write(p []byte) (int, error) {
	c.wrote.Store(true)
	return c.Conn.Write(p)
}

func (c *counted) Read(p []byte) (int, error) {
	if c.wrote.Swap(false) {
		c.trips.Add(1)
	}
	return c.Conn.Read(p)
}

// The test counts the round trips of an endpoint with a handler that sends no statement.
func TestRoundTrips(t *testing.T) {
	plain, schema := postgres(t, 2)
	var trips atomic.Int64
	config := plain.Config()
	config.MaxConns = 1
	config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return &counted{Conn: conn, trips: &trips}, err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	db := pgstore.New(pool, &pgstore.Options{Schema: schema})
	handle := func() http.Handler {
		return httpidem.Handle(db, "handle", httpidem.OneTenant, quiet(),
			func(context.Context, pgx.Tx, httpidem.Request[[]byte]) (httpidem.Reply[string], error) {
				return httpidem.OK("done"), nil
			})
	}
	old := http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
	wrap := func() http.Handler { return wrapped(db, quiet(), old) }
	for name, open := range map[string]func() http.Handler{"Handle": handle, "Wrap": wrap} {
		for _, warm := range []string{"1", "2", "1"} {
			// A connection prepares each statement at its first use.
			post{key: warm}.to(open())
		}
		h := open()
		for range 2 { // the second looks before it claims
			post{key: "1"}.to(h)
		}
		for _, c := range []struct {
			what, key string
			h         http.Handler
			most      int64
		}{{"a first request", "3", h, 2}, {"its repeat", "3", h, 1},
			{"its repeat at another process", "3", open(), 2}} {
			before := trips.Load()
			if w := (post{key: c.key}).to(c.h); w.Code >= 300 {
				t.Fatalf("%s: %d %s", name, w.Code, w.Body)
			}
			if n := trips.Load() - before; n > c.most {
				t.Errorf("%s: %s takes %d round trips, want %d", name, c.what, n, c.most)
			} else {
				t.Logf("%s: %s takes %d", name, c.what, n)
			}
		}
	}
}
