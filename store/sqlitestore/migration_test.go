package sqlitestore

import (
	"database/sql"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/skald-go/skald/internal/sqlfile"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

func TestMigrations(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.db")
	s, db := again(t, path)
	ctx := t.Context()
	var schema *store.SchemaError
	if err := s.Check(ctx, store.App); !errors.As(err, &schema) || schema.Have != 0 ||
		!strings.Contains(schema.Remedy, "skald migrate --store sqlite:"+path) || !store.Incurable(err) {
		t.Errorf("Check without tables = %v", err)
	}
	if _, err := store.Snapshot(ctx, s, ""); !errors.As(err, &schema) {
		t.Errorf("Tick without tables = %v", err)
	}
	pending, err := Pending(ctx, db)
	if err != nil || len(pending) != steps(t) || pending[0].Name != "001_tables.sql" {
		t.Errorf("Pending = %+v, %v", pending, err)
	}
	if n := count(t, db, "SELECT count(*) FROM sqlite_schema"); n != 0 {
		t.Errorf("Pending made %d tables", n)
	}
	applied, err := Migrate(ctx, db, &MigrateOptions{Source: "/a"})
	if err != nil || len(applied) != steps(t) {
		t.Errorf("Migrate = %+v, %v", applied, err)
	}
	if err := s.Check(ctx, store.App); err != nil {
		t.Error(err)
	}
	for _, o := range []*MigrateOptions{nil, {}, {Source: "/a"}} {
		if applied, err := Migrate(ctx, db, o); err != nil || len(applied) != 0 {
			t.Errorf("Migrate again = %+v, %v", applied, err)
		}
	}
	var other *SourceError
	if _, err := Migrate(ctx, db, &MigrateOptions{Source: "/b"}); !errors.As(err, &other) ||
		other.Have != "/a" {
		t.Errorf("Migrate with another source = %v", err)
	}
	if pending, err := Pending(ctx, db); err != nil || len(pending) != 0 {
		t.Errorf("Pending = %+v, %v", pending, err)
	}
	// A later build added something: this older build continues.
	if _, err := db.Exec(
		"INSERT INTO skald_migration (version, name, checksum) VALUES (99, '099_new.sql', '')"); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(ctx, store.App); err != nil {
		t.Errorf("Check of tables that have more = %v", err)
	}
	if applied, err := Migrate(ctx, db, nil); err != nil || len(applied) != 0 {
		t.Errorf("Migrate of tables that have more = %v, %v", applied, err)
	}
	// A later build removed something.
	if _, err := db.Exec("UPDATE skald_migration SET builds = 98 WHERE version = 99"); err != nil {
		t.Fatal(err)
	}
	_, migrate := Migrate(ctx, db, nil)
	_, todo := Pending(ctx, db)
	for name, err := range map[string]error{"check": s.Check(ctx, store.App), "migrate": migrate,
		"pending": todo} {
		if !errors.As(err, &schema) || schema.Have != 99 ||
			!strings.Contains(err.Error(), "run a newer build") {
			t.Errorf("%s of tables that have less = %v", name, err)
		}
	}
	if _, err := db.Exec("DELETE FROM skald_migration WHERE version = 99"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("UPDATE skald_migration SET checksum = 'x' WHERE version = 1"); err != nil {
		t.Fatal(err)
	}
	var changed *ChangedError
	if _, err := Migrate(ctx, db, nil); !errors.As(err, &changed) || changed.Name != "001_tables.sql" {
		t.Errorf("Migrate of a changed file = %v", err)
	}
	if _, err := Pending(ctx, db); !errors.As(err, &changed) {
		t.Errorf("Pending of a changed file = %v", err)
	}
}

// TestNextMigration checks a migration of a later build. A migration that only adds is applied and recorded
// once, and this build continues. A migration that removes something names the first build that works with
// it, and this build refuses to run.
func TestNextMigration(t *testing.T) {
	s, db, path := fresh(t)
	ctx := t.Context()
	all := fstest.MapFS{"090_next.sql": {
		Data: []byte("-- Of a build to come.\nALTER TABLE skald_relay ADD COLUMN next TEXT;\n")}}
	names, err := fs.Glob(Migrations(), "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(Migrations(), name)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = &fstest.MapFile{Data: text}
	}
	for _, want := range []int{1, 0} {
		if applied, err := Migrate(ctx, db, &MigrateOptions{files: all}); err != nil || len(applied) != want {
			t.Fatalf("it applied %v, %v", applied, err)
		}
	}
	if n := count(t, db, "SELECT count(next) FROM skald_relay"); n != 0 {
		t.Error(n)
	}
	if err := s.Check(ctx, store.App); err != nil {
		t.Errorf("this build on tables of %s that have more: %v", path, err)
	}
	if _, err := db.Exec("UPDATE skald_migration SET builds = 90 WHERE version = 90"); err != nil {
		t.Fatal(err)
	}
	var schema *store.SchemaError
	if err := s.Check(ctx, store.App); !errors.As(err, &schema) || schema.Have != 90 ||
		schema.Last != oldest {
		t.Errorf("this build on tables that have less: %v", err)
	}
}

// TestOldEngine checks that the table refuses a SQLite library that may corrupt the file.
func TestOldEngine(t *testing.T) {
	_, db, _ := fresh(t)
	var trigger string
	if err := db.QueryRow("SELECT sql FROM sqlite_schema WHERE name = 'skald_outbox_engine'").Scan(
		&trigger); err != nil {
		t.Fatal(err)
	}
	_, when, _ := strings.Cut(trigger, "\nWHEN ")
	when, _, _ = strings.Cut(when, "\nBEGIN")
	for version, old := range map[string]int64{"3.40.1": 1, "3.51.2": 1, "3.50.20": 1, "3.51.3": 0,
		"3.51.10": 0, "3.52.0": 0, "4.0.0": 0} {
		if got := count(t, db, "SELECT "+strings.ReplaceAll(when, "sqlite_version()",
			"'"+version+"'")); int64(got) != old {
			t.Errorf("SQLite %s is too old: %d", version, got)
		}
	}
}

// steps returns the number of migrations.
func steps(t *testing.T) int {
	t.Helper()
	files, err := fs.Glob(Migrations(), "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

func TestMigrationFiles(t *testing.T) {
	files, err := sqlfile.Migrations(Migrations(), ".")
	if err != nil || len(files) != steps(t) || files[0].Version != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	for i, f := range files {
		if i > 0 && f.Version <= files[i-1].Version {
			t.Errorf("%s has a number that was given", f.Name)
		}
	}
	if last := files[len(files)-1].Version; oldest > last {
		t.Errorf("this build needs version %d and has %d", oldest, last)
	}
}

func TestCheckOfAFileThatCannotBeWritten(t *testing.T) {
	_, _, path := fresh(t)
	db, err := sql.Open("sqlite", sqlexec.DSN(path)+"&mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var right *store.RightError
	if err := New(db, nil).Check(t.Context(), store.App); !errors.As(err, &right) {
		t.Errorf("Check = %v", err)
	}
}

// TestCheckOfAFileThatIsHeld checks that a file that another process has locked counts as writable, unless
// it is read-only.
func TestCheckOfAFileThatIsHeld(t *testing.T) {
	_, db, path := fresh(t)
	step, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = step.Rollback() }()
	for mode, writes := range map[string]bool{"&mode=rw": true, "&mode=ro": false} {
		soon := strings.Replace(sqlexec.DSN(path), "_busy_timeout=5000", "_busy_timeout=1", 1)
		db, err := sql.Open("sqlite", soon+mode)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		right := new(store.RightError)
		if err := New(db, nil).Check(t.Context(), store.App); errors.As(err, &right) == writes ||
			writes && err != nil {
			t.Errorf("%s: Check = %v", mode, err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, path := range []string{"", ":memory:", filepath.Join(t.TempDir(), "none", "x.db"), t.TempDir()} {
		if db, err := Open(path); err == nil {
			t.Errorf("Open(%q) is good", path)
			_ = db.Close()
		}
	}
}

// TestLimits checks that a plain INSERT cannot exceed the limits.
func TestLimits(t *testing.T) {
	_, db, _ := fresh(t)
	const ok = "topic, type) VALUES ('t', 'x'"
	for _, columns := range []string{
		"topic, type) VALUES ('', 'x'",
		"topic, type) VALUES (printf('%.250c', 't'), 'x'",
		"topic, type) VALUES ('a b', 'x'",
		"topic, type) VALUES ('größe', 'x'",
		"topic, type) VALUES (x'41', 'x'",
		"topic, type) VALUES ('t', ''",
		"topic, type) VALUES ('t', printf('%.256c', 'x')",
		"topic, type) VALUES ('t', 'a' || char(10)",
		"type) VALUES ('x'",
		"topic) VALUES ('t'",
		"topic, type, key) VALUES ('t', 'x', printf('%.1025c', 'k')",
		"topic, type, key) VALUES ('t', 'x', replace(printf('%.513c', 'k'), 'k', 'ä')",
		"topic, type, key) VALUES ('t', 'x', x'00ff'",
		"topic, type, key_bytes) VALUES ('t', 'x', zeroblob(1025)",
		"topic, type, key, key_bytes) VALUES ('t', 'x', 'k', x'6b'",
		"topic, type, data) VALUES ('t', 'x', printf('%.921601c', '1')",
		"topic, type, data) VALUES ('t', 'x', x'7b7d'",
		"topic, type, data_bytes) VALUES ('t', 'x', zeroblob(921601)",
		"topic, type, data, data_bytes) VALUES ('t', 'x', '', x''",
		"topic, type, subject) VALUES ('t', 'x', printf('%.1025c', 's')",
		"topic, type, bucket) VALUES ('t', 'x', 1024",
		"topic, type, id) VALUES ('t', 'x', ''",
		"topic, type, headers) VALUES ('t', 'x', 'a'",
		"topic, type, headers) VALUES ('t', 'x', '{}'",
		"topic, type, headers) VALUES ('t', 'x', '[1]'",
		`topic, type, headers) VALUES ('t', 'x', '[["a"]]'`,
		`topic, type, headers) VALUES ('t', 'x', '[["a", 1]]'`,
		`topic, type, headers) VALUES ('t', 'x', '[["a", null]]'`,
		`topic, type, headers) VALUES ('t', 'x', '[["", ""]]'`,
		`topic, type, headers) VALUES ('t', 'x', '[["a b", ""]]'`,
		`topic, type, headers) VALUES ('t', 'x', '[["a", "=A=="]]'`,
		`topic, type, headers) VALUES ('t', 'x', '[["a", "AAA"]]'`,
		`topic, type, headers) VALUES ('t', 'x', '[["a", "A==="]]'`,
		`topic, type, headers) VALUES ('t', 'x', '[["' || printf('%.129c', 'n') || '", ""]]'`,
		`topic, type, headers) VALUES ('t', 'x', '[["a", "' || printf('%.21848c', 'A') || '"]]'`,
	} {
		if _, err := db.Exec("INSERT INTO skald_outbox (" + columns + ")"); err == nil {
			t.Errorf("%s is taken", columns)
		}
	}
	for _, columns := range []string{
		ok,
		"topic, type, key) VALUES (printf('%.249c', 't'), printf('%.255c', 'x'), printf('%.1024c', 'k')",
		"topic, type, data) VALUES ('t', 'x', printf('%.921600c', '1')",
		"topic, type, data_bytes, key_bytes) VALUES ('t', 'x', zeroblob(921600), zeroblob(1024)",
		`topic, type, headers) VALUES ('t', 'x', '[["a", "AAA="], ["a", "AA=="], ["a", ""]]'`,
		`topic, type, headers) VALUES ('t', 'x', '[["abcd", "' || printf('%.21840c', 'A') || '"]]'`,
	} {
		if _, err := db.Exec("INSERT INTO skald_outbox (" + columns + ")"); err != nil {
			t.Errorf("%s: %v", columns, err)
		}
	}
}
