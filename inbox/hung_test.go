package inbox_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
)

// TestHungHandlersKeepNothing checks that handlers which ignore their contexts occupy no connection of a
// small pool, no partition and no worker. The store has a failed attempt for each of their messages.
func TestHungHandlersKeepNothing(t *testing.T) {
	t.Parallel()
	for _, over := range []string{"pgx", "database/sql", "the encoding of a result"} {
		t.Run(over, func(t *testing.T) {
			t.Parallel()
			open := onPostgres(t)
			w := newWorld(t, 1)
			g := open(w)
			config, err := pgxpool.ParseConfig(need.Postgres(t))
			if err != nil {
				t.Fatal(err)
			}
			config.MaxConns = 4
			pool, err := pgxpool.NewWithConfig(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { go pool.Close() })
			if over != "database/sql" {
				hungHandlers(t, w, g, pgstore.New(pool, &pgstore.Options{Schema: g.schema}), over != "pgx")
				return
			}
			db := stdlib.OpenDBFromPool(pool)
			db.SetMaxOpenConns(4)
			hungHandlers(t, w, g, pgstore.NewSQL(db, &pgstore.Options{Schema: g.schema}), false)
		})
	}
}

func hungHandlers[TTx any](t *testing.T, w *world, g *ground[pgx.Tx], db store.Driver[TTx],
	inResult bool) {
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	o := inbox.Options{Workers: 8,
		Timeouts: inbox.Timeouts{Handle: 100 * time.Millisecond, Drain: time.Second},
		Limits:   inbox.Limits{Unacknowledged: 20},
		Retry:    inbox.Retry{InitialInterval: time.Millisecond, MaxInterval: time.Millisecond}}
	consume := func() *inbox.Inbox[TTx] {
		in := inbox.New(db, w.bus, "stock", &o)
		inbox.OnResult(in, said, func(_ context.Context, _ TTx,
			m skald.Received[string]) (inbox.Result, error) {
			switch {
			case m.Value != "hang":
			case inResult:
				return inbox.Result{Value: hangingValue{release}}, nil
			default:
				<-release
			}
			return inbox.Result{}, nil
		})
		return in
	}
	in := consume()
	for n := range 4 {
		w.publish(w.message(fmt.Sprint("h", n), "hang"))
	}
	for n := range 60 {
		w.publish(w.message(fmt.Sprint("k", n), "well"))
	}
	stop := run(t, in)
	until(t, "the other keys are handled, and all is acknowledged",
		func() bool { return in.Health().Handled == 60 && w.acknowledged() })
	until(t, "the inbox is ready and shows the four messages", func() bool {
		h := in.Health()
		return h.Ready && (h.Parked == 4 || len(h.Stuck) >= 4)
	})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	failed := func(attempts int) bool {
		ps, err := store.ListParked(t.Context(), db, store.ParkedQuery{Consumer: "stock", Limit: 10})
		if err != nil || len(ps) != 4 {
			t.Fatalf("%d messages are parked, %v", len(ps), err)
		}
		for _, p := range ps {
			if len(p.Failures) < attempts || !strings.Contains(p.Last.Why, "ignored its context") {
				return false
			}
		}
		return true
	}
	if !failed(1) {
		t.Error("an attempt is not stored")
	}
	// Each process stores one attempt, unless the database of a busy machine does not answer the probe.
	for n := 0; !failed(2) && n < 5; n++ {
		stop := run(t, consume())
		for end := time.Now().Add(20 * time.Second); !failed(2) && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
	if !failed(2) {
		t.Error("no other process stores a second attempt")
	}
}

// hangingValue is a result whose encoding ends when release is closed.
type hangingValue struct{ release chan struct{} }

func (v hangingValue) MarshalJSON() ([]byte, error) {
	<-v.release
	return []byte("{}"), nil
}
