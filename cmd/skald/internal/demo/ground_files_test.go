package demo

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
)

func groundOpen(t *testing.T, folder string) *playground[*sql.Tx] {
	t.Helper()
	g, err := sqLite(folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g
}

// create makes a table in Order's database.
func create(t *testing.T, g *playground[*sql.Tx], name string) {
	t.Helper()
	home, err := g.Order(t.Context())
	if err == nil {
		err = home.Make(t.Context(), "CREATE TABLE "+name+" (x)")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A folder is nobody's, a run's, or somebody else's; a run's goes with all that is in it.
func TestFolder(t *testing.T) {
	foreign := (*cli.ForeignError)(nil)
	folder := filepath.Join(t.TempDir(), "demo")
	g := groundOpen(t, folder)
	if has, err := g.Has(t.Context(), "demo_run"); has || err != nil {
		t.Errorf("where nothing is: %t, %v", has, err)
	}
	if err := g.Sweep(); err != nil {
		t.Errorf("sweep where nothing is: %v", err)
	}
	create(t, g, "mine")
	if has, err := g.Has(t.Context(), "demo_run"); has || !errors.As(err, &foreign) ||
		!strings.Contains(err.Error(), "order.db") {
		t.Errorf("where something else is: %t, %v", has, err)
	}
	create(t, g, "demo_run")
	if has, err := g.Has(t.Context(), "demo_run"); !has || err != nil {
		t.Errorf("where a run is: %t, %v", has, err)
	}
	if err := g.Own(t.Context()); !errors.As(err, &foreign) || !strings.Contains(err.Error(), ": mine") {
		t.Errorf("a table of somebody else's among those of a run: %v", err)
	}
	release, err := g.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	said, err := g.Remove(t.Context())
	release()
	if err != nil || said != "removed the demo at sqlite:"+folder || there(folder, "") {
		t.Errorf("%q, %v; the folder is there: %t", said, err, there(folder, ""))
	}
}

func there(folder, name string) bool {
	_, err := os.Stat(filepath.Join(folder, name))
	return err == nil
}

// What a removal leaves that was killed behind the last database is swept, unless there is more.
func TestSweep(t *testing.T) {
	folder := t.TempDir()
	g := groundOpen(t, folder)
	for _, name := range []string{lockFile, "mine"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Sweep(); err != nil || !there(folder, lockFile) {
		t.Errorf("beside a file of somebody else's: %v", err)
	}
	if err := os.Remove(filepath.Join(folder, "mine")); err != nil {
		t.Fatal(err)
	}
	if err := g.Sweep(); err != nil || there(folder, "") {
		t.Errorf("alone: %v", err)
	}
}
