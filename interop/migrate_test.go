// Package interop tries what Skald writes for the tools of others.
package interop

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golang-migrate/migrate/v4"
	_ "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	_ "github.com/golang-migrate/migrate/v4/source/file"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
)

// database is a new one on the server, dropped at the end.
func database(t *testing.T) string {
	t.Helper()
	server := need.Postgres(t)
	ctx := context.Background()
	admin, err := pgx.Connect(ctx, server)
	if err != nil {
		t.Fatal(err)
	}
	name := "skald_interop_" + strings.ToLower(rand.Text()[:12])
	if _, err := admin.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := admin.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
		_ = admin.Close(ctx)
	})
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

// command is the program.
func command(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "skald")
	build := exec.Command("go", "build", "-o", bin, "./cmd/skald")
	build.Dir, build.Env = "..", append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the command: %v\n%s", err, out)
	}
	return bin
}

// files has the command write its files for tool into dir.
func files(t *testing.T, bin, at, tool, dir string) string {
	t.Helper()
	out, err := exec.Command(bin, "migrate", "--store", at, "--schema", "our app", "--source", "/it's/ours",
		"--print", "--format", tool, "--dir", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("skald migrate --print --format %s: %v\n%s", tool, err, out)
	}
	return string(out)
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// whole wants the tables to be those that skald migrate makes, and to work.
func whole(t *testing.T, at string) {
	t.Helper()
	ctx := t.Context()
	pool, err := pgxpool.New(ctx, at)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	o := &pgstore.MigrateOptions{Schema: "our app", Source: "/it's/ours"}
	if todo, err := pgstore.Migrate(ctx, pool, o); err != nil || len(todo) != 0 {
		t.Errorf("behind the tool skald migrate has to do %v, %v", todo, err)
	}
	s := pgstore.New(pool, &pgstore.Options{Schema: "our app"})
	if err := errors.Join(s.Check(ctx, store.App), s.Check(ctx, store.Relay)); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(ctx,
		`INSERT INTO "our app".skald_outbox (topic, type, data) VALUES ('orders', 'x', '1')`); err != nil {
		t.Fatal(err)
	}
	tip, err := store.Snapshot(ctx, s, "")
	if err != nil {
		t.Fatal(err)
	}
	page, err := s.Pull(ctx, store.Window{Tip: tip}, 10)
	if err != nil || len(page.Rows) != 1 || page.Rows[0].Source != "/it's/ours" {
		t.Errorf("a row written comes as %+v, %v", page.Rows, err)
	}
}

// The team has a migration of its own before and behind; a later build has one more.
func TestGoose(t *testing.T) {
	at, bin, dir := database(t), command(t), t.TempDir()
	write(t, dir, "00007_ours.sql", "-- +goose Up\nCREATE TABLE ours (id int);\n")
	said := files(t, bin, at, "goose", dir)
	if !strings.Contains(said, "00008_skald_001_tables.sql") {
		t.Errorf("it said %s", said)
	}
	db, err := sql.Open("pgx", at)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	p, err := goose.NewProvider(goose.DialectPostgres, db, os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.UpTo(t.Context(), 8); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(
		`INSERT INTO "our app".skald_entity (space, key, version) VALUES ('a', 'b', 1)`); err != nil {
		t.Fatal(err) // in use, before the rest comes
	}
	if _, err := p.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if said := files(t, bin, at, "goose", dir); said != "up to date\n" {
		t.Errorf("again it said %s", said)
	}
	whole(t, at)
}

func TestGolangMigrate(t *testing.T) {
	at, bin, dir := database(t), command(t), t.TempDir()
	write(t, dir, "20260101000000_ours.up.sql", "CREATE TABLE ours (id int);\n")
	files(t, bin, at, "golang-migrate", dir)
	m, err := migrate.New("file://"+dir, strings.Replace(at, "postgres://", "pgx5://", 1))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Up(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(m.Close()); err != nil {
		t.Error(err)
	}
	if said := files(t, bin, at, "golang-migrate", dir); said != "up to date\n" {
		t.Errorf("again it said %s", said)
	}
	whole(t, at)
}

// A file that is gone is written anew behind all others: as a later build's would be.
func TestNumbersGoOn(t *testing.T) {
	at, bin := "postgres://127.0.0.1:1/none", command(t)
	for tool, suffix := range map[string]string{"goose": ".sql", "golang-migrate": ".up.sql",
		"dbmate": ".sql", "atlas": ".sql"} {
		dir := t.TempDir()
		files(t, bin, at, tool, dir)
		names, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v, %v", tool, names, err)
		}
		last := names[len(names)-1]
		text, err := os.ReadFile(last)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(last); err != nil {
			t.Fatal(err)
		}
		write(t, dir, "29990101000000_ours"+suffix, "")
		files(t, bin, at, tool, dir)
		_, what, _ := strings.Cut(filepath.Base(last), "_")
		anew, err := os.ReadFile(filepath.Join(dir, "29990101000001_"+what))
		if err != nil || string(anew) != string(text) {
			t.Errorf("%s: %v\n%s", tool, err, anew)
		}
	}
}
