package sqlfile

import (
	"io/fs"
	"maps"
	"strings"
	"testing"
	"testing/fstest"
)

func files(named ...string) fstest.MapFS {
	out := fstest.MapFS{}
	for i := 0; i < len(named); i += 2 {
		out[named[i]] = &fstest.MapFile{Data: []byte(named[i+1])}
	}
	return out
}

func TestLoad(t *testing.T) {
	got, err := Load(files(
		"sql/mark.sql",
		"-- name: InsertMark\n-- why it is so\nINSERT INTO /*schema*/skald_mark (id)\n  -- not this line\nSELECT id FROM /*schema*/skald_outbox;\n\n-- name:  Two \r\nSELECT 1;\r\nSELECT '--';\r\n",
		"sql/row.sql", "\n-- about the file\n-- name: Row\n  SELECT 2  \n",
		"sql/README.md", "-- name: Row\nno SQL",
		"sql/deep/more.sql", "-- name: Row\nSELECT 3",
		"elsewhere.sql", "-- name: Row\nSELECT 4",
	), "sql", `"a b".`)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"InsertMark": "INSERT INTO \"a b\".skald_mark (id)\nSELECT id FROM \"a b\".skald_outbox",
		"Two":        "SELECT 1;\nSELECT '--'",
		"Row":        "SELECT 2",
	}
	if !maps.Equal(got, want) {
		t.Errorf("Load = %q, want %q", got, want)
	}
}

func TestLoadWithoutPrefix(t *testing.T) {
	got, err := Load(files("a.sql", "-- name: A\nSELECT 1 FROM /*schema*/t"), ".", "")
	if err != nil || got["A"] != "SELECT 1 FROM t" {
		t.Errorf("Load = %q, %v", got, err)
	}
}

func TestLoadRefuses(t *testing.T) {
	for _, c := range []struct{ text, other, want string }{
		{"SELECT 1;\n-- name: A\nSELECT 1", "", "a.sql: a statement has no name"},
		{"SELECT 1", "", "a.sql: a statement has no name"},
		{"-- name: A\n-- name: B\nSELECT 1", "", "a.sql: A is empty"},
		{"-- name: A\n;\n", "", "a.sql: A is empty"},
		{"-- name: A\nSELECT 1;\n-- name: A\nSELECT 2", "", "a.sql: two statements have the name A"},
		{"-- name: A\nSELECT 1", "-- name: A\nSELECT 2", "b.sql: two statements have the name A"},
	} {
		got, err := Load(files("a.sql", c.text, "b.sql", c.other), ".", "")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Load of %q, %q = %q, %v, want an error with %q", c.text, c.other, got, err, c.want)
		}
	}
}

func TestLoadNoFolder(t *testing.T) {
	if _, err := Load(files(), "sql", ""); err == nil || !strings.Contains(err.Error(), "read statements") {
		t.Errorf("Load = %v", err)
	}
}

// unreadable lists a file that cannot be opened.
type unreadable struct{ fstest.MapFS }

func (u unreadable) Open(name string) (fs.File, error) {
	if strings.HasSuffix(name, ".sql") {
		return nil, fs.ErrPermission
	}
	return u.MapFS.Open(name)
}

func (u unreadable) ReadFile(name string) ([]byte, error) { return nil, fs.ErrPermission }

func TestLoadUnreadable(t *testing.T) {
	_, err := Load(unreadable{files("a.sql", "-- name: A\nSELECT 1")}, ".", "")
	if err == nil || !strings.Contains(err.Error(), "permission") {
		t.Errorf("Load = %v", err)
	}
}

func TestMigrations(t *testing.T) {
	got, err := Migrations(fstest.MapFS{
		"m/010_contract.sql": {Data: []byte("-- What nobody needs goes.\n-- builds from 7\nSELECT 1;")},
		"m/002_more.sql":     {Data: []byte("SELECT 2;")},
		"m/readme.txt":       {Data: []byte("no")},
	}, "m")
	if err != nil || len(got) != 2 || got[0].Version != 2 || got[0].Builds != 0 || got[1].Version != 10 ||
		got[1].Builds != 7 ||
		got[1].Name != "010_contract.sql" || len(got[0].Checksum) != 64 || got[0].Text != "SELECT 2;" {
		t.Errorf("got %+v, %v", got, err)
	}
	for name, text := range map[string]string{"x_1.sql": "", "001_a.sql": "-- builds from yesterday\n"} {
		if got, err := Migrations(fstest.MapFS{"m/" + name: {Data: []byte(text)}}, "m"); err == nil {
			t.Errorf("%s is read as %+v", name, got)
		}
	}
}

func TestReached(t *testing.T) {
	files := []Migration{{Version: 1}, {Version: 3}, {Version: 4}}
	for _, c := range []struct {
		applied []int
		want    int
	}{{nil, 0}, {[]int{1}, 1}, {[]int{1, 4}, 1}, {[]int{4, 3, 1}, 4}, {[]int{1, 3, 4, 9}, 9},
		{[]int{3, 9}, 0}} {
		if got := Reached(files, c.applied); got != c.want {
			t.Errorf("%v have come to %d, want %d", c.applied, got, c.want)
		}
	}
}
