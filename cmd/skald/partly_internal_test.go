package main

import (
	"context"
	"io"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore"
)

// Where somebody else is first with one of many, the others are done, and the exit code tells.
func TestPartOfManyHasAnExitCode(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "o.db")
	db, err := sqlitestore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := sqlitestore.Migrate(t.Context(), db, nil); err != nil {
		t.Fatal(err)
	}
	s := sqlitestore.New(db, nil)
	for _, id := range []string{"1", "2", "3"} {
		if _, err := s.Apply(t.Context(), store.Effect{Keep: &store.Keep{Parked: store.Parked{Consumer: "stock", Identity: store.Identity{Source: "/o", ID: id},
			Message: skald.Message{ID: id, Source: "/o", Topic: "t", Type: "x"}, Attempts: 1}}}); err != nil {
			t.Fatal(err)
		}
	}
	w := &wanted{}
	c := &cobra.Command{}
	w.bulkFlags(c)
	c.SetContext(t.Context())
	if err := c.ParseFlags([]string{"--store", "sqlite:" + path, "--reason", "x", "--yes", "--all"}); err != nil {
		t.Fatal(err)
	}
	rival := func(ctx context.Context, k keeper, p *store.Parked) (store.Effect, error) {
		if p.ID == "2" { // its consumer takes it in this very moment
			if _, err := s.Apply(ctx, store.Effect{Free: &store.Free{Consumer: p.Consumer, Identity: p.Identity}}); err != nil {
				return store.Effect{}, err
			}
		}
		return release(ctx, k, p)
	}
	err = (&act{w: w, out: io.Discard, errs: io.Discard, verb: "release", effect: rival}).run(c)
	if exitCode(err) != place.ExitPartly {
		t.Errorf("got %v", err)
	}
}
