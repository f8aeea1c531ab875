package pgstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/store"
)

// TestPreparedTransaction checks that a prepared transaction stays open until it is committed by its name,
// also over a restart.
func TestPreparedTransaction(t *testing.T) {
	t.Parallel()
	c := need.NewCluster(t, "max_prepared_transactions = 4")
	b := newBedAt(t, c.URL("postgres"))
	s := b.store(t)
	insert := `INSERT INTO {skald_outbox} (topic, key, type, data) VALUES ('orders', $$k$$, 'said', '%s')`
	say := func(data string, end string) {
		t.Helper()
		b.exec(t, "BEGIN; "+b.q(fmt.Sprintf(insert, data))+"; "+end)
	}
	say("early", "PREPARE TRANSACTION 'early'")
	say("late", "COMMIT")
	// its locks would outlive a failed test
	t.Cleanup(func() { _, _ = b.pool.Exec(context.Background(), "ROLLBACK PREPARED 'early'") })
	if f := found(t, s, "prepared transactions"); f.Grade != skald.Doubtful ||
		!strings.Contains(f.Observed, `"early" of `) || !strings.Contains(f.Remedy, "ROLLBACK PREPARED 'early'") {
		t.Errorf("the finding is %+v", f)
	}
	if f := found(t, s, "replication slots"); f.Grade != skald.Fine {
		t.Errorf("the finding is %+v", f)
	}
	b.exec(t, "SELECT pg_create_physical_replication_slot('forgotten')")
	if f := found(t, s, "replication slots"); f.Grade != skald.Doubtful ||
		!strings.Contains(f.Observed, "forgotten (active: false)") {
		t.Errorf("the finding is %+v", f)
	}
	b.exec(t, "SELECT pg_drop_replication_slot('forgotten')")
	base := read(t, s, "", "late")
	c.Stop("immediate")
	c.Start()
	base = read(t, s, base)
	b.pool.Reset()
	b.exec(t, "COMMIT PREPARED 'early'")
	say("last", "COMMIT")
	read(t, s, base, "early", "last")
}

// found returns the result of an examination of the server with that name.
func found(t *testing.T, s *Store, name string) skald.Finding {
	t.Helper()
	list, err := s.Examine(t.Context(), store.Exam{Server: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("there is no %q in %+v", name, list)
	return skald.Finding{}
}

// read fails the test unless want is between base and now, and returns the tick at the end.
func read(t *testing.T, s *Store, base string, want ...string) string {
	t.Helper()
	tip, err := store.Snapshot(t.Context(), s, base)
	for deadline := time.Now().Add(5 * time.Minute); err != nil && Outage(err) &&
		time.Now().Before(deadline); {
		// connections from before a crash
		tip, err = store.Snapshot(t.Context(), s, base)
	}
	if err != nil {
		t.Fatal(err)
	}
	page, err := s.Pull(t.Context(), store.Window{Base: base, Tip: tip}, 10)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range page.Rows {
		got = append(got, string(r.Data))
	}
	if !slices.Equal(got, want) {
		t.Fatalf("between %q and %q lie %q, want %q", base, tip, got, want)
	}
	return tip
}
