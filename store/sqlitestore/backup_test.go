package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// TestBackupBesideAWriter checks a backup during an open transaction. The backup has the data that was
// committed before, and nothing of that transaction.
func TestBackupBesideAWriter(t *testing.T) {
	t.Parallel()
	s, db, path := fresh(t)
	write := func(tx *sql.Tx, id string) {
		t.Helper()
		m := skald.Message{ID: id, Topic: "orders", Type: "placed", Data: []byte("{}"),
			ContentType: "application/json"}
		if err := s.Write(t.Context(), tx, store.Effect{Rows: []skald.Message{m}}); err != nil {
			t.Fatal(err)
		}
	}
	begin := func() *sql.Tx {
		t.Helper()
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return tx
	}
	tx := begin()
	write(tx, "committed")
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	open := begin()
	write(open, "open")
	to := filepath.Join(t.TempDir(), "b?#.db")
	if err := os.WriteFile(to+".part", []byte("half"), 0o600); err != nil { // of a backup that was killed
		t.Fatal(err)
	}
	if err := Backup(t.Context(), path, to); err != nil {
		t.Fatal(err)
	}
	if err := open.Rollback(); err != nil {
		t.Fatal(err)
	}
	_, copied := again(t, to)
	var ids string
	if err := copied.QueryRow("SELECT group_concat(id) FROM skald_outbox").Scan(&ids); err != nil ||
		ids != "committed" {
		t.Errorf("the backup has %q, %v", ids, err)
	}
	if _, err := os.Stat(to + ".part"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the part is left: %v", err)
	}
}

// TestBackupRefused checks that the error names the unusable source or target, and that no file is changed.
func TestBackupRefused(t *testing.T) {
	t.Parallel()
	_, _, path := fresh(t)
	dir := t.TempDir()
	there := filepath.Join(dir, "there.db")
	if err := os.WriteFile(there, []byte("yesterday"), 0o600); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx        context.Context
		from, to   string
		want, left string
	}{
		{t.Context(), path, there, "exists already", "there.db"},
		{t.Context(), filepath.Join(dir, "none.db"), filepath.Join(dir, "x.db"), "no such file", "there.db"},
		{t.Context(), path, filepath.Join(dir, "no folder", "x.db"), "back up", "there.db"},
		{ended, path, filepath.Join(dir, "x.db"), "context canceled", "there.db"},
	} {
		if err := Backup(c.ctx, c.from, c.to); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s to %s: %v, want %s", c.from, c.to, err, c.want)
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 1 || entries[0].Name() != c.left {
			t.Errorf("%s to %s: left are %v, %v", c.from, c.to, entries, err)
		}
	}
}
