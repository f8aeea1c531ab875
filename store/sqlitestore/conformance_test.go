package sqlitestore

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, harness())
}

func TestDifferential(t *testing.T) {
	storetest.Differential(t, harness())
}

func TestLines(t *testing.T) { storetest.Lines(t, harness()) }

func harness() storetest.Harness[*sql.Tx] {
	return storetest.Harness[*sql.Tx]{
		Open: openFile,
		Can: storetest.Can[*sql.Tx]{Limits: true, Poison: func(tx *sql.Tx) error {
			_, err := tx.Exec("INSERT OR ROLLBACK INTO kv (k, v) VALUES ('x', NULL)")
			return err
		}, Statement: func(_ storetest.Database[*sql.Tx], tx *sql.Tx, text string) error {
			_, err := tx.Exec(strings.ReplaceAll(text, "{skald_outbox}", "skald_outbox"))
			return err
		}},
	}
}

// file is a database of the suite. Each driver is another handle on the file, like that of another process.
type file struct {
	path string
	db   *sql.DB
}

func openFile(t testing.TB) storetest.Database[*sql.Tx] {
	path := filepath.Join(t.TempDir(), "suite.db")
	makeFile(t, path, storetest.Source)
	_, db := again(t, path)
	if _, err := db.Exec("CREATE TABLE kv (k TEXT PRIMARY KEY, v TEXT NOT NULL) STRICT"); err != nil {
		t.Fatal(err)
	}
	return &file{path, db}
}

func (f *file) Driver(t testing.TB) store.Driver[*sql.Tx] {
	s, _ := again(t, f.path)
	return s
}

func (f *file) Begin(t testing.TB) *sql.Tx {
	tx, err := f.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

func (f *file) Commit(tx *sql.Tx) error   { return tx.Commit() }
func (f *file) Rollback(tx *sql.Tx) error { return tx.Rollback() }

func (f *file) Put(tx *sql.Tx, key, value string) error {
	_, err := tx.Exec("INSERT INTO kv (k, v) VALUES (?, ?) ON CONFLICT (k) DO UPDATE SET v = excluded.v", key,
		value)
	return err
}

func (f *file) Get(t testing.TB, key string) (value string, ok bool) {
	err := f.db.QueryRow("SELECT v FROM kv WHERE k = ?", key).Scan(&value)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		t.Fatal(err)
	}
	return value, err == nil
}

func (f *file) Count(t testing.TB) (c storetest.Counts) {
	if err := f.db.QueryRow("SELECT (SELECT count(*) FROM skald_outbox), (SELECT count(*) FROM skald_mark), (SELECT count(*) FROM skald_deferred), (SELECT count(*) FROM skald_audit)").
		Scan(&c.Rows, &c.Marks, &c.Aside, &c.Audits); err != nil {
		t.Fatal(err)
	}
	return c
}

func (f *file) Age(t testing.TB, d time.Duration) {
	for _, statement := range []string{"UPDATE skald_mark SET (written, until) = (SELECT written - n, until - n FROM (SELECT ? AS n))", "UPDATE skald_step SET at = at - ?", "UPDATE skald_handled_type SET at = at - ?",
		"UPDATE skald_saga SET (started_at, ended_at) = (SELECT started_at - n, ended_at - n FROM (SELECT ? AS n))",
		"UPDATE skald_consumer SET (heard_at, progress_at) = (SELECT heard_at - n, progress_at - n FROM (SELECT ? AS n))"} {
		if _, err := f.db.Exec(statement, d.Milliseconds()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.db.Exec(
		"UPDATE skald_quarantine SET taken_at = strftime('%Y-%m-%dT%H:%M:%fZ', taken_at, ?)",
		fmt.Sprintf("-%.3f seconds", d.Seconds())); err != nil {
		t.Fatal(err)
	}
	if _, err := f.db.Exec("UPDATE skald_outbox SET stored_at = strftime('%Y-%m-%dT%H:%M:%fZ', stored_at, ?)",
		fmt.Sprintf("-%.3f seconds", d.Seconds())); err != nil {
		t.Fatal(err)
	}
}
