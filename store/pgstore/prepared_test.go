package pgstore

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/store"
)

// A prepared transaction is open until it is committed by its name, whoever prepared it, over a restart too.
func TestPreparedTransaction(t *testing.T) {
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
	t.Cleanup(func() { _, _ = b.pool.Exec(context.Background(), "ROLLBACK PREPARED 'early'") }) // its locks would outlive a failure
	base := read(t, s, "", "late")
	c.Stop("immediate")
	c.Start()
	base = read(t, s, base)
	b.pool.Reset()
	b.exec(t, "COMMIT PREPARED 'early'")
	say("last", "COMMIT")
	read(t, s, base, "early", "last")
}

// read wants what lies between base and now, and returns the tick that ends it.
func read(t *testing.T, s *Store, base string, want ...string) string {
	t.Helper()
	tip, err := s.Tick(t.Context(), base)
	for deadline := time.Now().Add(5 * time.Minute); err != nil && Outage(err) && time.Now().Before(deadline); { // connections from before a crash
		tip, err = s.Tick(t.Context(), base)
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
