package inbox_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
)

// asked is a database that counts how many marks are looked up.
type asked struct {
	store.Driver[tx]
	ids int
}

func (a *asked) Seen(ctx context.Context, consumer string, ids []store.Identity) ([]store.Verdict, error) {
	a.ids += len(ids)
	return a.Driver.Seen(ctx, consumer, ids)
}

// Without duplicates the inbox stops reading marks early. If an attempt finds a duplicate by its mark, the
// inbox reads marks again.
func TestRepeatsAreLookedUpWhereThereAreAny(t *testing.T) {
	w := newWorld(t, 2)
	db := &asked{Driver: w.db}
	in := w.over(db, &inbox.Options{Now: w.clock, Workers: 1, Batch: 100,
		Logger: slog.New(slog.DiscardHandler)}, keep)
	var last skald.Message
	fresh := func(n int) {
		t.Helper()
		var ms []skald.Message
		for range n {
			last = w.message(fmt.Sprint("k", w.n), "once")
			ms = append(ms, last)
		}
		w.publish(ms...)
		w.quiet(in)
	}
	fresh(6_000)
	if db.ids == 0 || db.ids > 5_000 {
		t.Errorf("%d of 6000 messages were looked up", db.ids)
	}
	db.ids = 0
	w.publish(last)
	w.quiet(in)
	if h := in.Health(); h.Duplicates != 1 || db.ids != 0 {
		t.Errorf("%d duplicates, %d looked up", h.Duplicates, db.ids)
	}
	w.publish(last, last)
	w.quiet(in)
	if h := in.Health(); h.Duplicates != 3 || db.ids != 2 {
		t.Errorf("%d duplicates, %d looked up", h.Duplicates, db.ids)
	}
	w.expect(string(last.Key), "once")
	fresh(6_000)
	other := inbox.New(w.db, w.bus.Client(), "stock",
		&inbox.Options{Now: w.clock, Workers: 1, Logger: slog.New(slog.DiscardHandler)})
	inbox.On(other, said, keep)
	w.quiet(other)
	w.quiet(in) // it loses a partition
	w.quiet(other)
	if err := other.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.quiet(in) // and gains it again
	db.ids = 0
	fresh(10)
	if db.ids != 10 {
		t.Errorf("%d of 10 messages were looked up after a partition was gained", db.ids)
	}
}
