package pgstore

import (
	"context"
	"testing"

	"github.com/skald-go/skald/store"
)

// TestServerNamesTheTablesToo checks that SyncResult.Server changes after the tables were restored into the
// same database, and that it differs for each schema. A cached answer is then not valid.
func TestServerNamesTheTablesToo(t *testing.T) {
	t.Parallel()
	b, other := newBed(t), newBed(t)
	run := func(b *bed) string {
		t.Helper()
		got, err := b.store(t).SyncConsumer(context.Background(), store.SyncRequest{Consumer: "http"})
		if err != nil {
			t.Fatal(err)
		}
		return got.Server
	}
	was := run(b)
	if again := run(b); again != was || was == "" {
		t.Errorf("%q, then %q", was, again)
	}
	mark := store.Mark{Consumer: "stock", Identity: store.Identity{Source: "/shop", ID: "m-1"},
		Outcome: store.Done}
	if stored, err := b.store(t).Apply(context.Background(), store.Effect{Mark: &mark}); err != nil ||
		!stored[0] {
		t.Fatal(stored, err)
	}
	done, err := b.store(t).Rename(context.Background(), store.Rename{Old: "stock", New: "shelf",
		Audit: &store.Audit{Author: "ada", Action: "rename", Reason: "split"}})
	renamed := run(b)
	if err != nil || !done.Done || renamed == was {
		t.Errorf("renamed: %+v, %v; the run is %q still", done, err, renamed)
	}
	was = renamed
	if elsewhere := run(other); elsewhere == was {
		t.Errorf("two schemas are %q", was)
	}
	b.exec(t, `CREATE TABLE {kept} AS SELECT * FROM {skald_setting}`)
	b.exec(t, `DELETE FROM {skald_setting}`)
	b.exec(t, `INSERT INTO {skald_setting} SELECT * FROM {kept}`) // a restore of only the data
	if restored := run(b); restored == was {
		t.Errorf("after a restore it is %q still", was)
	}
}
