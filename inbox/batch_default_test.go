package inbox_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
)

// Without options an inbox shares transactions while a backlog exists; with Batch: 1 it never does.
func TestBacklogSharesTransactionsByDefault(t *testing.T) {
	for _, batch := range []int{0, 1} {
		w := newWorld(t, 1)
		db := &begins{Driver: w.db}
		var sizes []int
		last := 0
		in := w.over(db, &inbox.Options{Now: w.clock, Workers: 1, Batch: batch},
			func(ctx context.Context, tx tx, m skald.Received[string]) error {
				if db.n != last {
					sizes, last = append(sizes, 0), db.n
				}
				sizes[len(sizes)-1]++
				return keep(ctx, tx, m)
			})
		for n := range 200 {
			w.publish(w.message(fmt.Sprint("k", n), "1"))
		}
		w.quiet(in)
		// A job may be smaller, if fewer messages are ready. No job has more than twice the most so far.
		most, doubles := 0, sizes[0] == 1
		for _, n := range sizes {
			doubles = doubles && (most == 0 || n <= 2*most)
			most = max(most, n)
		}
		if batch == 0 && (!doubles || most != 64) || batch == 1 && len(sizes) != 200 {
			t.Errorf("with Batch %d the transactions had %v messages", batch, sizes)
		}
		if h := in.Health(); h.Handled != 200 {
			t.Errorf("health %+v", h)
		}
	}
}

// A deadlock in a handler charges no message, and the next batches are smaller. Handlers lock two rows, each
// in the order of its message; the rival is another transaction.
func TestCollisionInAHandlerHalvesBatches(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	g := onPostgres(t)(w)
	db := &pgBegins{Driver: g.db}
	var sizes []int
	last, collided := 0, false
	in := inbox.New[pgx.Tx](db, w.bus, "stock", &inbox.Options{Now: w.clock, Workers: 1,
		Logger: slog.New(slog.DiscardHandler)})
	inbox.On(in, said, func(ctx context.Context, tx pgx.Tx, m skald.Received[string]) error {
		if db.n != last {
			sizes, last = append(sizes, 0), db.n
		}
		sizes[len(sizes)-1]++
		if m.Value == "20" && !collided { // it is in the batch of 16
			collided = true
			_, err := tx.Exec(ctx, "DO $$ BEGIN RAISE SQLSTATE '40P01'; END $$")
			return err
		}
		return g.note(tx, string(m.Key), m.Value)
	})
	for n := range 63 {
		w.publish(w.message(fmt.Sprint("k", n), fmt.Sprint(n)))
	}
	w.quiet(in)
	most, after := 0, 0
	for i, n := range sizes {
		if most = max(most, n); i > 5 {
			after = max(after, n)
		}
	}
	if most > 16 || after > 8 || !collided {
		t.Errorf("the transactions had %v messages", sizes)
	}
	if h := in.Health(); h.Handled != 63 || h.Failures != 0 || len(g.lists(t)) != 63 {
		t.Errorf("health %+v, %d effects", h, len(g.lists(t)))
	}
}

// All messages lock hot rows, each in an order of its own: a transaction with more than one of them collides.
// Each handler runs once, but for those of the first collision. Batches stay small after it.
func TestHotRowsCostFewHandlerRuns(t *testing.T) {
	w := newWorld(t, 1)
	db, runs, shared := &serial{Store: w.db}, 0, 0
	last := 0
	in := w.over(db, &inbox.Options{Now: w.clock, Workers: 1},
		func(ctx context.Context, tx tx, m skald.Received[string]) error {
			runs++
			if len(db.levels) == last {
				shared++
				return collision{}
			}
			last = len(db.levels)
			return keep(ctx, tx, m)
		})
	const messages = 200
	for n := range messages {
		w.publish(w.message(fmt.Sprint("k", n), "1"))
	}
	w.quiet(in)
	if runs > messages+2 || shared != 1 {
		t.Errorf("%d messages took %d runs and %d collisions", messages, runs, shared)
	}
	if h := in.Health(); h.Handled != messages || h.Failures != 0 || len(w.db.User()) != messages {
		t.Errorf("health %+v, %d effects", h, len(w.db.User()))
	}
}

// pgBegins counts the transactions that an inbox begins.
type pgBegins struct {
	store.Driver[pgx.Tx]
	n int
}

func (b *pgBegins) Begin(ctx context.Context, in store.Intake) (store.Unit[pgx.Tx], error) {
	b.n++
	return b.Driver.Begin(ctx, in)
}
