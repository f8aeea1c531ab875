package main

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore"
)

func freshStore(t *testing.T, path string) *sqlitestore.Store {
	t.Helper()
	db, err := sqlitestore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := sqlitestore.Migrate(t.Context(), db, nil); err != nil {
		t.Fatal(err)
	}
	return sqlitestore.New(db, nil)
}

// Where somebody else is first with one of many, the others are done, and the exit code tells.
func TestPartOfManyHasAnExitCode(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "o.db")
	s := freshStore(t, path)
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
	err := (&act{w: w, out: io.Discard, errs: io.Discard, verb: "release", effect: rival}).run(c)
	if exitCode(err) != place.ExitPartly {
		t.Errorf("got %v", err)
	}
}

// rivalled is a database in which somebody else is first with one of what is to be admitted.
type rivalled struct{ knower }

func (r rivalled) Admit(ctx context.Context, numbers []int64, by, reason string) (int, error) {
	if n, err := r.knower.Admit(ctx, numbers[:1], "rival", "first"); n != 1 || err != nil {
		return 0, errors.Join(errors.New("no rival"), err)
	}
	return r.knower.Admit(ctx, numbers, by, reason)
}

// The same of what is admitted, and of lanes that are rewound.
func TestPartOfAdmittedAndRewound(t *testing.T) {
	t.Parallel()
	s := freshStore(t, filepath.Join(t.TempDir(), "o.db"))
	for _, id := range []string{"1", "2", "3"} {
		q := store.Quarantined{Consumer: "stock", Identity: store.Identity{Source: "/o", ID: id}, Why: store.TooOld, Message: skald.Message{ID: id, Source: "/o", Topic: "t", Type: "x"}}
		if _, err := s.Apply(t.Context(), store.Effect{Quarantine: &q}); err != nil {
			t.Fatal(err)
		}
	}
	a := &admission{k: rivalled{s}, q: store.Query{Consumer: "stock"}, by: "me", reason: "x"}
	var out strings.Builder
	if code := exitCode(a.run(t.Context(), &out, true)); code != place.ExitPartly || !strings.Contains(out.String(), `"admitted":2`) {
		t.Errorf("exit code %d: %s", code, &out)
	}
	r := &rewinding{consumer: "stock", topic: "t", reason: "x", by: "me", sure: true}
	lanes := []rewound{{Lane: "t/0", To: 5, origin: "here"}, {Lane: "t/1", Why: "it is there already"}}
	if err := r.change(t.Context(), io.Discard, s, lanes); err != nil {
		t.Fatal(err)
	}
	if code := exitCode(r.partly(lanes)); code != place.ExitPartly || lanes[0].Rewound {
		t.Errorf("exit code %d: %+v", code, lanes)
	}
	if err := r.partly(lanes[1:]); err != nil {
		t.Errorf("without a rival: %v", err)
	}
}
