package relay_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store"
)

// unreadable is a database of which all works but the reading of rows.
type unreadable struct {
	relay.Source
	pulls atomic.Int64
}

func (u *unreadable) Pull(context.Context, store.Window, int) (store.Page, error) {
	u.pulls.Add(1)
	return store.Page{}, errors.New("canceling statement due to statement timeout")
}

// A database that takes a lease and opens a window but gives no rows is asked ever more seldom, like one that is away.
func TestAReadThatAlwaysFailsIsTriedEverMoreSeldom(t *testing.T) {
	w := newWorld(t, "orders")
	w.write("orders", "k", "1")
	db := &unreadable{Source: w.db}
	var mu sync.Mutex
	var log strings.Builder
	r := relay.New(db, w.bus, &relay.Options{Owner: "a", Logger: slog.New(slog.NewTextHandler(writer(func(p []byte) {
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
