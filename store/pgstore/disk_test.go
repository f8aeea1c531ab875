package pgstore

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// TestFullDisk checks that a full disk is an outage with a clear error, that committed data stays, and that
// work continues when there is space again. The WAL is on another disk: without space for it PostgreSQL
// stops.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	c := need.NewCluster(t)
	dir := need.SmallDisk(t, 8)
	space := filepath.Join(dir, "space")
	if err := os.Mkdir(space, 0o700); err != nil {
		t.Fatal(err)
	}
	c.Own(space)
	b := newBedAt(t, c.URL("postgres"))
	s := b.store(t)
	b.exec(t, "CREATE TABLESPACE small LOCATION '"+space+"'")
	for _, leaf := range b.leaves(t) {
		b.exec(t, `ALTER TABLE {`+leaf+`} SET TABLESPACE small`)
	}
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 5<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	inserted := 0
	say := func() error {
		m := aMessage("k")
		m.ContentType, m.Data = "application/octet-stream", make([]byte, 6400) // one row to a page
		_, _ = rand.Read(m.Data)                                               // cannot be compressed
		stored, err := s.Apply(t.Context(), store.Effect{Rows: []skald.Message{m}})
		if err == nil && stored[0] {
			inserted++
		}
		return err
	}
	var err error
	for range 2000 {
		if err = say(); err != nil {
			break
		}
	}
	if err == nil || !s.Outage(err) || sqlexec.SQLState(err) != "53100" ||
		!strings.Contains(err.Error(), "No space left") {
		t.Fatalf("%d rows were written until the disk was full, then: %v", inserted, err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := say(); err != nil {
		t.Fatalf("with room again: %v", err)
	}
	if n := one[int](t, b, `SELECT count(*) FROM {skald_outbox}`); n != inserted {
		t.Errorf("%d rows are there, %d were committed", n, inserted)
	}
}

// leaves returns the outbox's partitions.
func (b *bed) leaves(t testing.TB) []string {
	t.Helper()
	return one[[]string](t, b,
		`SELECT array_agg(c.relname ORDER BY c.relname) FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
		WHERE i.inhparent = $1::regclass`, b.prefix()+"skald_outbox")
}
