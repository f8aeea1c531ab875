package pgstore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// pausing is a runner that runs a function before one of its transactions.
type pausing struct {
	sqlexec.Runner
	n, at int
	do    func()
}

func (s *pausing) Run(ctx context.Context, calls ...sqlexec.Call) error {
	if s.n++; s.n == s.at {
		s.do()
	}
	return s.Runner.Run(ctx, calls...)
}

// moved returns a store with n rows of an outbox that is behind a relay.
func moved(t *testing.T, b *bed, n int) *Store {
	t.Helper()
	ctx, s := context.Background(), b.store(t)
	shards, err := s.Lease(ctx, store.LeaseRequest{Owner: "one", Session: "1", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, err := s.Apply(ctx, store.Effect{Rows: rowsOf(numbered("a", i+1))}); err != nil {
			t.Fatal(err)
		}
	}
	knew := shards.Shards[0]
	knew.Epoch++
	if _, err = s.Lease(ctx, store.LeaseRequest{Owner: "one", Session: "1", TTL: time.Hour,
		LastKnown: []store.Shard{knew}}); !errors.Is(err, store.ErrMoved) {
		t.Fatalf("lease: %v", err)
	}
	return s
}

// unread fails the test unless a relay finds rows 1 to n, once each.
func unread(t *testing.T, b *bed, what string, n int) {
	t.Helper()
	ctx, s := context.Background(), b.store(t)
	got, err := s.Lease(ctx, store.LeaseRequest{Owner: "two", Session: "1", TTL: time.Hour})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	f := newFollower(s)
	f.base = got.Shards[0].Cursor.Base
	if err := f.turn(ctx, 100); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	wantOrder(t, f.rows, map[string]int{"a": n})
	if len(f.rows) != n {
		t.Errorf("%s: %d rows are read of %d", what, len(f.rows), n)
	}
}

// TestReseatsOverlap stops a second recover at each of its transactions while the first one runs
// completely: the rows that the first gave to the relays are read.
func TestReseatsOverlap(t *testing.T) {
	t.Parallel()
	b, ctx, note := newBed(t), t.Context(), &store.Audit{Author: "ann", Action: "recover"}
	for at := 1; ; at++ {
		b.clear(t)
		first, second := moved(t, b, 12), b.store(t)
		steps := &pausing{Runner: second.pg.Runner, at: at, do: func() {
			if done, err := first.Recover(ctx, note); err != nil || done.Again != 12 {
				t.Errorf("the first Recover returned %+v, %v", done, err)
			}
		}}
		second.pg.Runner = steps
		done, err := second.Recover(ctx, note)
		if err != nil {
			t.Fatalf("the second recover, from its transaction %d on: %v", at, err)
		}
		if steps.n < at { // it did everything itself
			if done.Again != 12 {
				t.Errorf("a single Recover returned %+v", done)
			}
			return
		}
		if done != (store.Recovered{}) {
			t.Errorf("the second Recover, at transaction %d, returned %+v", at, done)
		}
		unread(t, b, fmt.Sprintf("from transaction %d on", at), 12)
	}
}

// TestRecoverOutlivesItsClient checks a recover whose client is gone: it continues at the server, waits for
// a writer, and ends between the steps of the next one.
func TestRecoverOutlivesItsClient(t *testing.T) {
	t.Parallel()
	b, ctx, note := newBed(t), t.Context(), &store.Audit{Author: "ann", Action: "recover"}
	first, second := moved(t, b, 12), b.store(t)
	writer, err := b.pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Write(ctx, writer, store.Effect{Rows: rowsOf(numbered("a", 13))}); err != nil {
		t.Fatal(err)
	}
	gone := make(chan error, 1)
	go func() { // its result is lost
		_, err := first.Recover(ctx, note)
		gone <- err
	}()
	for one[int](t, b,
		`SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock' AND query LIKE '%IN EXCLUSIVE MODE%'`, b.name()) == 0 {
		if ctx.Err() != nil {
			t.Fatal("it never waits for the writer")
		}
	}
	second.pg.Runner = &pausing{Runner: second.pg.Runner, at: 2, do: func() {
		if err := writer.Commit(ctx); err != nil {
			t.Fatal(err)
		}
		if err := <-gone; err != nil {
			t.Fatal(err)
		}
	}}
	if done, err := second.Recover(ctx, note); err != nil || done != (store.Recovered{}) {
		t.Errorf("the next Recover returned %+v, %v", done, err)
	}
	unread(t, b, "behind a client that is gone", 13)
}
