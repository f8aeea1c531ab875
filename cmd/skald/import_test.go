package main_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore"
)

// What a file names is marked, once, on either store; a look changes nothing, and what cannot be read is
// named by its place.
func TestInboxImport(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	sqlite := "sqlite:" + filepath.Join(dir, "i.db")
	server, conn := postgres(t)
	lines := file("known.jsonl", `{"source":"/o","id":"1","time":"2026-11-01T00:00:00Z"}
{"id":"2","fingerprint":"1152921504606846976"}
{"source":null,"id":"01890a5d-ac96-774b-bcce-b302099a8057"}
`)
	table := file("known.csv", "message,id,source\nx,1,/o\nx,\"4,5\",/o\n")
	for _, at := range []string{sqlite, server} {
		start(t, nil, "migrate", "--store", at).expect(0)
		imports := func(want string, args ...string) {
			t.Helper()
			if !slices.Contains(args, "--consumer") {
				args = append(args, "--consumer", "stock")
			}
			p := start(t, []string{"SKALD_STORE=" + at},
				append([]string{"consumer", "import", "--source", "/d"}, args...)...)
			if p.expect(0); !strings.Contains(p.out.String(), want) {
				t.Errorf("%v: %q, want %q", args, p.out.String(), want)
			}
		}
		imports("3 messages would be marked, 0 had a mark", "--from", lines, "--dry-run")
		imports(`{"dry_run":false,"known":0,"new":3,"too_old":0}`, "--from", lines, "--reason", "cut-over",
			"--yes", "--json", "--by", "ann")
		imports("0 messages are marked, 3 had a mark, 0 are older", "--from", lines, "--reason",
			"cut-over", "--yes")
		imports("1 messages are marked, 1 had a mark", "--from", table, "--reason", "cut-over", "--yes")
		p := start(t, nil, "inbox", "show", "4,5", "--consumer", "stock", "--source", "/o", "--store",
			at, "--json")
		if p.expect(0); !strings.Contains(p.out.String(), `"status":"done"`) {
			t.Errorf("%s", p.out.String())
		}
		imports("2 messages are marked", "--from",
			file("keys.jsonl",
				`{"id":"k-1","code":201,"body":"{}","headers":{"Location":"/orders/1","Link":["a","b"]}}
{"id":"\"k-2\"","code":402,"body":"declined"}`), "--consumer", "http:orders", "--reason", "cut-over", "--yes")
		imports("1 messages are marked, 1 had a mark", "--from",
			file("keys.csv",
				"id,code,body,headers\nk-2,402,x,\nk-3,200,done,\"{\"\"Location\"\":\"\"/o/3\"\"}\"\n"),
			"--consumer", "http:orders",
			"--reason", "cut-over", "--yes")
		p = start(t, nil, "inbox", "show", "k-3", "--consumer", "http:orders", "--source", "/d", "--store",
			at, "--json")
		if p.expect(0); !strings.Contains(p.out.String(), `"code":200`) {
			t.Errorf("%s", p.out.String())
		}
		p = start(t, nil, "inbox", "show", "2", "--consumer", "stock", "--source", "/d", "--store",
			at, "--json")
		if p.expect(0); !strings.Contains(p.out.String(), `"fingerprint":"1152921504606846976"`) {
			t.Errorf("%s", p.out.String())
		}
	}
	if n := count(conn,
		"SELECT count(*) FROM skald_audit WHERE action = 'import marks' AND consumer = 'stock' AND reason = 'cut-over' AND (author = 'ann') = (id = '1')"); n != 2 {
		t.Errorf("%d entries of the audit", n)
	}
	db, err := sqlitestore.Open(filepath.Join(dir, "i.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	seen, err := sqlitestore.New(db, nil).Seen(t.Context(), "stock",
		[]store.Identity{{Source: "/o", ID: "1"}, {Source: "/d", ID: "1"}})
	if err != nil || seen[0].Outcome != store.Done || seen[1].Outcome != store.Fresh {
		t.Errorf("%+v, %v", seen, err)
	}

	bad := func(code int, word string, args ...string) {
		t.Helper()
		start(t, []string{"SKALD_STORE=" + sqlite},
			append([]string{"consumer", "import"}, args...)...).expect(code, word)
	}
	bad(2, "--consumer", "--from", lines)
	bad(2, "--from", "--consumer", "stock")
	bad(2, "--reason", "--from", lines, "--consumer", "stock")
	bad(2, "--yes", "--from", lines, "--consumer", "stock", "--reason", "x")
	bad(4, "no file", "--from", filepath.Join(dir, "none"), "--consumer", "stock", "--dry-run")
	bad(2, "object 2 of the file: it has no id", "--from", file("a", `{"id":"1"}{"source":"/o"}`),
		"--consumer", "stock", "--dry-run")
	bad(2, "object 1 of the file", "--from", file("b", `{"id":1}`), "--consumer", "stock", "--dry-run")
	bad(2, "not text", "--from", file("t", "{\"id\":\"a\x80\"}"), "--consumer", "stock", "--dry-run")
	bad(2, "not text", "--from", file("u", `{"id":"a\ud800"}`), "--consumer", "stock", "--dry-run")
	bad(2, "object 1 of the file: an answer with status 503", "--from", file("e", `{"id":"1","code":503}`),
		"--consumer", "http:o", "--dry-run")
	bad(2, "object 1 of the file: an answer of once.Do", "--from", file("f", `{"id":"1","body":"no JSON"}`),
		"--consumer", "o", "--dry-run")
	bad(2, "object 1 of the file: a key has 1 to 255", "--from", file("h", `{"id":"a\nb","code":200}`),
		"--consumer", "http:o", "--dry-run")
	bad(2, "object 1 of the file: the header", "--from",
		file("i", `{"id":"a","code":200,"headers":{"A\nB":"c"}}`), "--consumer", "http:o", "--dry-run")
	bad(2, "line 2 of the file: code", "--from", file("g.csv", "id,code\n1,ok\n"), "--consumer", "http:o",
		"--dry-run")
	bad(2, "including id", "--from", file("c.csv", "1,2\n"), "--consumer", "stock", "--dry-run")
	bad(2, "line 3 of the file", "--from", file("d.csv", "id,fingerprint\n1,\n2,many\n"), "--consumer",
		"stock", "--dry-run")
}
