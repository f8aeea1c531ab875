package sqlitestore

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/store"
)

// TestFullDisk checks that a full disk is an outage with a clear error, that committed data stays, and that
// work continues when there is space again.
func TestFullDisk(t *testing.T) {
	dir := need.SmallDisk(t, 4)
	s, db := again(t, filepath.Join(dir, "full.db"))
	if _, err := Migrate(t.Context(), db, &MigrateOptions{Source: "/full"}); err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	written := 0
	say := func() error {
		m := skald.Message{ID: "01890000-0000-7000-8000-000000000000", Type: "said", Topic: "orders",
			Key:         []byte("k"),
			ContentType: "application/octet-stream", Data: make([]byte, 64<<10)}
		stored, err := s.Apply(t.Context(), store.Effect{Rows: []skald.Message{m}})
		if err == nil && stored[0] {
			written++
		}
		return err
	}
	var err error
	for range 100 {
		if err = say(); err != nil {
			break
		}
	}
	if err == nil || !s.Outage(err) || !strings.Contains(err.Error(), "full") {
		t.Fatalf("%d rows of 64 KiB were written until the disk was full, then: %v", written, err)
	}
	if errors.Is(err, store.ErrLost) {
		t.Errorf("a full disk is no lost guard: %v", err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := say(); err != nil {
		t.Fatalf("with room again: %v", err)
	}
	if n := count(t, db, "SELECT count(*) FROM skald_outbox"); n != written {
		t.Errorf("%d rows are there, %d were committed", n, written)
	}
}
