package relay_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store"
)

// unreadable is a database that fails to read rows; everything else works.
type unreadable struct {
	relay.Source
	pulls atomic.Int64
}

func (u *unreadable) Pull(context.Context, store.Window, int) (store.Page, error) {
	u.pulls.Add(1)
	return store.Page{}, errors.New("canceling statement due to statement timeout")
}

// TestFailingReadsAreRetriedRarely uses a database that grants leases and opens windows, but fails to read
// rows. The relay queries this database at growing intervals, like an unreachable database.
func TestFailingReadsAreRetriedRarely(t *testing.T) { synctest.Test(t, readFails) }

func readFails(t *testing.T) {
	w := newWorld(t, "orders")
	w.write("orders", "k", "1")
	db := &unreadable{Source: w.db}
	var mu sync.Mutex
	var log strings.Builder
	r := relay.New(db, w.bus, &relay.Options{Owner: "a",
		Logger: slog.New(slog.NewTextHandler(writer(func(p []byte) {
			mu.Lock()
			defer mu.Unlock()
			log.Write(p)
		}), nil))})
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
	defer stop()
	if err := r.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if n := db.pulls.Load(); n == 0 || n > 12 {
		t.Errorf("%d reads in two seconds", n)
	}
	if n := strings.Count(log.String(), "waiting for the database"); n != 1 {
		t.Errorf("%d warnings", n)
	}
}

type writer func(p []byte)

func (w writer) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}

// gone is a broker that the test can make unreachable.
type gone struct {
	broker.Publisher
	away bool
}

func (g *gone) Publish(ctx context.Context, msgs []skald.Message, only ...broker.Topics) broker.Pending {
	if g.away {
		return refusing{}
	}
	return g.Publisher.Publish(ctx, msgs, only...)
}

type refusing struct{}

func (refusing) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

func (refusing) Wait(context.Context) error { return broker.ErrUnavailable }

// TestOutageIsLoggedRarely checks that a long outage of the broker is logged at once, then rarely, and once
// at its end.
func TestOutageIsLoggedRarely(t *testing.T) {
	w := newWorld(t, "orders")
	bus := &gone{Publisher: w.bus, away: true}
	var log strings.Builder
	r := relay.New(w.db, bus, &relay.Options{Owner: "a", Now: func() time.Time { return w.now },
		Logger: slog.New(slog.NewTextHandler(&log, nil))})
	w.write("orders", "k", "1")
	logged := func(words string, want int) {
		t.Helper()
		if n := strings.Count(log.String(), words); n != want {
			t.Errorf("%q is logged %d times, want %d:\n%s", words, n, want, &log)
		}
	}
	w.quiet(r) // a minute each
	logged("the broker is away", 2)
	for range 9 {
		w.quiet(r)
	}
	logged("the broker is away", 5)
	logged("the broker is back", 0)
	bus.away = false
	w.quiet(r)
	logged("the broker is away", 5)
	logged("the broker is back", 1)
	w.expect("orders", "k", "1")
}
