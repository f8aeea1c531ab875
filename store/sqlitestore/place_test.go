package sqlitestore

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/skald-go/skald/store"
)

// TestFileIsReplaced checks that a replaced or deleted file is detected at the next Begin and Commit, in
// Skald's transactions and in those of the caller.
func TestFileIsReplaced(t *testing.T) {
	for name, replace := range map[string]func(path string) error{
		"by a copy": func(path string) error {
			other := filepath.Join(filepath.Dir(path), "other.db")
			makeFile(t, other, "/it's/main")
			return os.Rename(other, path)
		},
		"by none": os.Remove,
	} {
		s, db, path := fresh(t)
		ctx := t.Context()
		u, err := s.Begin(ctx,
			store.Intake{Marks: []store.Mark{{Consumer: "c", Identity: store.Identity{Source: "s", ID: "1"},
				Outcome: store.Done}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := replace(path); err != nil {
			t.Fatal(err)
		}
		wantMoved := func(err error, doing string) {
			t.Helper()
			if !errors.Is(err, store.ErrMoved) || !store.Incurable(err) || s.Outage(err) {
				t.Errorf("replaced %s, %s: %v", name, doing, err)
			}
		}
		wantMoved(u.Commit(ctx), "commit")
		_, err = s.Begin(ctx, store.Intake{})
		wantMoved(err, "begin")
		_, err = s.Lease(ctx, store.LeaseRequest{Owner: "a", Session: "1"})
		wantMoved(err, "lease")
		_, err = db.BeginTx(ctx, nil)
		wantMoved(err, "the caller's own transaction")
		_, again := again(t, path)
		tx, err := again.BeginTx(ctx, nil)
		if err != nil {
			t.Fatalf("opened again: %v", err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
	}
}
