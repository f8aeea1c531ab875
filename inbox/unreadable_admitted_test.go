package inbox_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
)

// An admitted message that cannot be read is put back with the reason. The others are handled.
func TestUnreadableAdmittedMessageIsPutBack(t *testing.T) {
	t.Parallel()
	ctx, schema := t.Context(), "inbox_"+strings.ToLower(rand.Text()[:10])
	pool, err := pgxpool.New(ctx, need.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = pool.Exec(context.Background(), "DROP SCHEMA IF EXISTS "+schema+" CASCADE")
		pool.Close()
	})
	if _, err := pgstore.Migrate(ctx, pool, &pgstore.MigrateOptions{Schema: schema}); err != nil {
		t.Fatal(err)
	}
	w, db := newWorld(t, 1), pgstore.New(pool, &pgstore.Options{Schema: schema})
	var numbers []int64
	for i := range 3 {
		m := w.message(fmt.Sprint("k", i), fmt.Sprint(i))
		_, err := db.Apply(ctx, store.Effect{Quarantine: &store.Quarantined{Consumer: "stock",
			Identity: store.Identity{Source: m.Source, ID: m.ID}, Why: store.TooOld, Message: m}})
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, int64(i+1))
	}
	if _, err := pool.Exec(ctx, "UPDATE "+schema+
		".skald_quarantine SET message = '{' WHERE number = 1"); err != nil {
		t.Fatal(err)
	}
	if _, err := store.AdmitAll(ctx, db, numbers, "ann", "repaired"); err != nil {
		t.Fatal(err)
	}
	var done []string
	in := inbox.New(db, w.bus, "stock", &inbox.Options{Now: w.clock})
	inbox.On(in, said, func(_ context.Context, _ pgx.Tx, m skald.Received[string]) error {
		done = append(done, m.Value)
		return nil
	})
	w.quiet(in)
	if len(done) != 2 {
		t.Errorf("taken: %v", done)
	}
	left, err := store.ListQuarantined(ctx, db, store.QuarantineQuery{Consumer: "stock"})
	if err != nil || len(left) != 1 || left[0].Number != 1 || !left[0].Admitted.IsZero() ||
		left[0].Fault == "" ||
		!strings.Contains(left[0].Reason, "cannot be read") {
		t.Errorf("left in quarantine: %+v, %v", left, err)
	}
}
