package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// fresh returns a store in a new file.
func fresh(t testing.TB) (*Store, *sql.DB, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a b?c#%.db")
	makeFile(t, path, "/it's/main")
	s, db := again(t, path)
	return s, db, path
}

// migrated has the migrated files, by source.
var migrated = struct {
	sync.Mutex
	files map[string][]byte
}{files: map[string][]byte{}}

// makeFile migrates a new file. It runs Migrate once per source and then copies, which is 100 times faster.
func makeFile(t testing.TB, path, source string) {
	t.Helper()
	migrated.Lock()
	defer migrated.Unlock()
	var err error
	if migrated.files[source] == nil {
		migrated.files[source], err = migrateFile(t.Context(), filepath.Join(t.TempDir(), "made.db"), source)
	}
	if err == nil {
		err = os.WriteFile(path, migrated.files[source], 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func migrateFile(ctx context.Context, path, source string) ([]byte, error) {
	db, err := Open(path)
	if err != nil {
		return nil, err
	}
	_, err = Migrate(ctx, db, &MigrateOptions{Source: source})
	if err = errors.Join(err, db.Close()); err != nil {
		// closing the last connection moves the log into the file
		return nil, err
	}
	return os.ReadFile(path)
}

// again returns another process's handle on a file.
func again(t testing.TB, path string) (*Store, *sql.DB) {
	t.Helper()
	db, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return New(db, nil), db
}

func message(topic, key string) skald.Message {
	now := time.Now().UTC().Truncate(time.Microsecond)
	return skald.Message{ID: uuid7.New(now), Type: "t", Topic: topic, Key: []byte(key), Time: now,
		ContentType: "application/json", Data: []byte(`{"a":1}`)}
}

func count(t testing.TB, db *sql.DB, q string, args ...any) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), q, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	return n
}

// pullAll reads the whole outbox.
func pullAll(t testing.TB, s *Store) []store.Row {
	t.Helper()
	tip, err := store.Snapshot(t.Context(), s, "")
	if err != nil {
		t.Fatal(err)
	}
	page, err := s.Pull(t.Context(), store.Window{Tip: tip}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return page.Rows
}

// TestStatementsPrepare checks that every statement can be prepared on a new file, and that the code uses it.
func TestStatementsPrepare(t *testing.T) {
	_, db, _ := fresh(t)
	text, err := texts()
	if err != nil {
		t.Fatal(err)
	}
	code := ""
	err = filepath.WalkDir(".", func(at string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(at, ".go") || strings.HasSuffix(at, "_test.go") {
			return err
		}
		b, err := os.ReadFile(at)
		code += string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, q := range text {
		stmt, err := db.PrepareContext(t.Context(), q)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_ = stmt.Close()
		if !strings.Contains(code, `"`+name+`"`) {
			t.Errorf("%s is used nowhere", name)
		}
	}
	for _, used := range regexp.MustCompile(
		`\.(?:Exec|Count|Rows?|Query)\((?:sqlrun\.Quiet\()?ctx\)?, "(\w+)"`).
		FindAllStringSubmatch(code, -1) {
		if text[used[1]] == "" {
			t.Errorf("%s is no statement", used[1])
		}
	}
}

func TestUnit(t *testing.T) {
	s, db, _ := fresh(t)
	ctx := t.Context()
	m := store.Mark{Consumer: "c", Identity: store.Identity{Source: "/x", ID: "1"}, Outcome: store.Done}
	in := store.Intake{Marks: []store.Mark{m},
		Locks: []store.Lock{{Space: "s", Key: "k"}, {Space: "s", Key: "k"}}}
	u, err := s.Begin(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	if f := u.Found(); f.Marks[0].Outcome != store.Fresh || f.Locks[0] != 1 || f.Locks[1] != 1 {
		t.Errorf("Found = %+v", f)
	}
	if err := s.Write(ctx, u.Tx(), store.Effect{Rows: []skald.Message{message("t", "k")}}); err != nil {
		t.Fatal(err)
	}
	woken := s.Woken()
	if err := u.Commit(ctx, store.Effect{Rows: []skald.Message{message("t", "k")}}); err != nil {
		t.Fatal(err)
	}
	<-woken
	if n := count(t, db, "SELECT count(*) FROM skald_commit_guard"); n != 0 {
		t.Errorf("%d rows in skald_commit_guard", n)
	}
	if u, err = s.Begin(ctx, in); err != nil {
		t.Fatal(err)
	}
	if f := u.Found(); f.Marks[0].Outcome != store.Done || f.Locks[0] != 2 {
		t.Errorf("Found = %+v", f)
	}
	if stored, err := u.Rollback(ctx, store.Effect{Mark: &m},
		store.Effect{Locks: []store.Lock{{Space: "s", Key: "k", Version: 2}}},
		store.Effect{Locks: []store.Lock{{Space: "s", Key: "k", Version: 2}}}); err != nil ||
		fmt.Sprint(stored) != "[false true false]" {
		t.Errorf("Rollback = %v, %v", stored, err)
	}
	if rows := pullAll(t, s); len(rows) != 2 || rows[0].Source != "/it's/main" {
		t.Errorf("rows = %+v", rows)
	}
}

// TestLent checks that a handler that ends the lent transaction is stopped or detected.
func TestLent(t *testing.T) {
	for name, end := range map[string]func(tx *sql.Tx) error{
		"Commit":   (*sql.Tx).Commit,
		"Rollback": (*sql.Tx).Rollback,
		"COMMIT":   func(tx *sql.Tx) error { _, err := tx.Exec("COMMIT"); return err },
		"ROLLBACK": func(tx *sql.Tx) error { _, err := tx.Exec("ROLLBACK"); return err },
	} {
		t.Run(name, func(t *testing.T) {
			s, db, _ := fresh(t)
			u, err := s.Begin(t.Context(),
				store.Intake{Marks: []store.Mark{{Consumer: "c",
					Identity: store.Identity{Source: "x", ID: "1"}, Outcome: store.Done}}})
			if err != nil {
				t.Fatal(err)
			}
			if err := end(u.Tx()); strings.EqualFold(name, "commit") && err == nil {
				t.Error("a handler could commit")
			}
			if name == "COMMIT" { // refused, and the transaction is unchanged
				if err := u.Commit(t.Context()); err != nil {
					t.Error(err)
				}
				return
			}
			if _, err := u.Tx().Exec("INSERT INTO skald_entity VALUES ('a', 'b', 1)"); err == nil {
				t.Error("a statement after the end is committed on its own")
			}
			if err := u.Commit(t.Context()); !errors.Is(err, store.ErrLent) &&
				(name != "ROLLBACK" || !errors.Is(err, sqlexec.ErrGone)) {
				t.Errorf("Commit = %v", err)
			}
			if n := count(t, db, "SELECT count(*) FROM skald_mark"); n != 0 {
				t.Errorf("%d marks", n)
			}
			if err := u.Commit(t.Context()); err == nil {
				t.Error("a unit ends twice")
			}
		})
	}
}

func TestContract(t *testing.T) {
	s, db, _ := fresh(t)
	if _, err := db.Exec(`INSERT INTO skald_outbox (topic, key, type, data) VALUES ('orders', 42, 'order.placed', '{"id":42}')`); err != nil {
		t.Fatal(err)
	}
	rows := pullAll(t, s)
	if len(rows) != 1 {
		t.Fatalf("%d rows", len(rows))
	}
	r := rows[0]
	if at, ok := uuid7.Time(r.ID); !ok || time.Since(at).Abs() > time.Minute ||
		time.Since(r.Time).Abs() > time.Minute {
		t.Errorf("id %s, time %v", r.ID, r.Time)
	}
	if string(r.Key) != "42" || string(r.Data) != `{"id":42}` || r.ContentType != "application/json" ||
		r.Source != "/it's/main" {
		t.Errorf("row = %+v", r)
	}
}

// TestBusy checks the wait for other writers, of this process and of another.
// Interleaving 10.
func TestBusy(t *testing.T) {
	s, _, path := fresh(t)
	other, _ := again(t, path)
	u, err := s.Begin(t.Context(), store.Intake{})
	if err != nil {
		t.Fatal(err)
	}
	for _, rival := range []*Store{s, other} {
		if _, err := rival.Begin(t.Context(), store.Intake{Wait: 30 * time.Millisecond}); !errors.Is(err,
			store.ErrBusy) || !rival.Outage(err) {
			t.Errorf("Begin = %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		if _, err := rival.Begin(ctx, store.Intake{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Begin = %v", err)
		}
		cancel()
	}
	if err := u.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, rival := range []*Store{s, other} {
		u, err := rival.Begin(t.Context(), store.Intake{Wait: 1}) // there is no other writer
		if err != nil {
			t.Fatal(err)
		}
		if err := u.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
