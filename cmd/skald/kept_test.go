package main_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore"
)

// What is kept is listed, released, redriven and dropped by the command, each change with its audit.
func TestKeptMessagesByTheCommand(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "o.db")
	env := []string{"SKALD_STORE=sqlite:" + path}
	start(t, env, "migrate").expect(0)
	db, err := sqlitestore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	s := sqlitestore.New(db, nil)
	keep := func(id string, dead *store.Death) store.Effect {
		return store.Effect{Keep: &store.Keep{Parked: store.Parked{Consumer: "stock", Identity: store.Identity{Source: "/orders", ID: id},
			Message:  skald.Message{ID: id, Source: "/orders", Topic: "orders", Type: "order.placed", Key: []byte("k-" + id), Data: []byte(`"secret"`)},
			Attempts: 3, Due: time.Hour, Last: store.Failure{At: time.Now(), Why: "no such column"}, Dead: dead}}}
	}
	death := &store.Death{At: time.Now(), Kind: "attempts", Fingerprint: "abc", Holds: true}
	if _, err := s.Apply(t.Context(), keep("m-1", nil), keep("m-2", death), keep("m-3", death)); err != nil {
		t.Fatal(err)
	}
	says := func(code int, args []string, wants ...string) {
		t.Helper()
		p := start(t, env, args...)
		p.expect(code)
		for _, want := range wants {
			if !strings.Contains(p.out.String()+p.errs.String(), want) {
				t.Errorf("%v does not say %q: %s%s", args, want, &p.out, &p.errs)
			}
		}
		if args[1] == "list" && strings.Contains(p.out.String(), "secret") {
			t.Errorf("%v prints payloads", args)
		}
	}
	says(0, []string{"parked", "list"}, "m-1", "no such column", "due in 59m")
	says(0, []string{"dead", "list", "--json", "--fingerprint", "abc"}, `"id":"m-2"`, `"id":"m-3"`, `"holds_key":true`)
	says(0, []string{"dead", "groups"}, "2", "abc", "no such column")
	says(0, []string{"dead", "show", "--id", "m-2"}, "InNlY3JldCI=")
	says(2, []string{"dead", "redrive", "--yes"}, "--reason")
	for _, all := range [][]string{{"dead", "redrive"}, {"dead", "drop"}, {"parked", "release"}} {
		says(2, append(all, "--yes", "--reason", "fixed"), "which messages", "--all")
		says(2, append(all, "--yes", "--reason", "fixed", "--id", ""), "which messages") // of a variable that was not set
		says(2, append(all, "--all", "--reason", "fixed"), "--yes")
		says(0, append(all, "--dry-run"), "would be done")
	}
	says(0, []string{"dead", "redrive", "--dry-run", "--json"}, `"meant":2`)
	says(0, []string{"dead", "redrive", "--id", "m-2", "--yes", "--reason", "fixed", "--by", "ann"}, "1 of 1")
	says(0, []string{"dead", "drop", "--yes", "--all", "--reason", "not ours", "--by", "ann", "--json"}, `"done":1`)
	says(4, []string{"dead", "drop", "--yes", "--all", "--reason", "not ours"}, "skald: no kept message")
	says(4, []string{"dead", "show", "--id", "m-3"}, "skald: no dead letter")
	says(0, []string{"parked", "release", "--key", "k-m-1", "--yes", "--reason", "now"}, "1 of 1")
	got, err := s.Claim(t.Context(), "stock", "life", store.Portion{Keys: 10}, time.Minute)
	if err != nil || len(got.Parked) != 2 {
		t.Errorf("due are %+v, %v", got, err)
	}
	if said := text(t, db, `SELECT group_concat(what || ' ' || who || ' ' || why || ' ' || id) FROM skald_audit WHERE who = 'ann' ORDER BY seq`); said != "redrive ann fixed m-2,drop ann not ours m-3" {
		t.Errorf("the audit has %s", said)
	}
	if v, err := s.Seen(t.Context(), "stock", []store.Identity{{Source: "/orders", ID: "m-3"}}); err != nil || v[0].Outcome != store.Rejected || v[0].Reason != "dropped: not ours" {
		t.Errorf("the dropped one is %+v, %v", v, err)
	}
}
