package sqlitestore

import (
	"database/sql"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// TestFindingsOfAFile checks that Examine finds a file that was opened without Open, and that therefore loses
// commits or blocks readers.
func TestFindingsOfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	db, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Migrate(t.Context(), db, nil); err != nil {
		t.Fatal(err)
	}
	grades := func(db *sql.DB) map[string]skald.Finding {
		t.Helper()
		list, err := New(db, nil).Examine(t.Context(), store.Exam{Connections: 3})
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]skald.Finding{}
		for _, f := range list {
			out[f.Name] = f
		}
		return out
	}
	good := grades(db)
	for _, name := range []string{"journal_mode", "synchronous", "connections"} {
		if good[name].Grade != skald.Fine {
			t.Errorf("%+v", good[name])
		}
	}
	for rate, want := range map[float64]skald.Grade{0.001: skald.Fine, 1e12: skald.Doubtful} {
		list, err := New(db, nil).Examine(t.Context(), store.Exam{Rate: rate})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(list, func(f skald.Finding) bool { return f.Name == "rate" })
		if i < 0 || list[i].Grade != want || (list[i].Remedy == "") != (want == skald.Fine) {
			t.Errorf("at %v messages/s: %+v", rate, list)
		}
		// The retention never ran, so its defaults apply.
		if j := slices.IndexFunc(list, func(f skald.Finding) bool { return f.Name == "disk" }); j < 0 ||
			rate > 1 && strings.Contains(list[j].Observed, "takes 0.0 GiB") {
			t.Errorf("at %v messages/s: %+v", rate, list)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil ||
		slices.ContainsFunc(left, func(e os.DirEntry) bool { return strings.Contains(e.Name(), "doctor") }) {
		t.Errorf("it left %v, %v", left, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	bad, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(delete)&_pragma=synchronous(normal)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = bad.Close() }()
	found := grades(bad)
	for _, name := range []string{"journal_mode", "synchronous"} {
		if f := found[name]; f.Grade != skald.Failed || f.Remedy == "" {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
