package main_test

import (
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
)

// What is kept is listed, released, redriven and dropped by the command, each change with its audit.
func TestKeptMessagesByTheCommand(t *testing.T) { onEachStore(t, testKeptMessagesByTheCommand) }

func testKeptMessagesByTheCommand(t *testing.T, fresh func(*testing.T) *bed) {
	b := fresh(t).migrate()
	keep := func(id string, dead *store.Death) store.Effect {
		return store.Effect{Park: &store.Park{Parked: store.Parked{Consumer: "stock",
			Identity: store.Identity{Source: "/orders", ID: id},
			Message: skald.Message{ID: id, Source: "/orders", Topic: "orders", Type: "order.placed",
				Key: []byte("k-" + id), Data: []byte(`"secret"`)},
			Attempts: 3, Due: 30 * 24 * time.Hour, Last: store.Failure{At: time.Now(), Why: "no such column"},
			Dead: dead}}}
	}
	death := &store.Death{At: time.Now(), Kind: "attempts", Fingerprint: "abc", BlocksKey: true}
	_, err := b.s.Apply(t.Context(), keep("m-1", nil), keep("m-2", death), keep("m-3", death))
	must(t, err)
	// it takes what is due, and nothing else
	b.run(b.bus("orders"), "stock", "orders", "order.placed", inbox.Options{}, nil)
	says := func(code int, args []string, wants ...string) {
		t.Helper()
		p := start(t, b.env, args...)
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
	says(0, []string{"parked", "list"}, "m-1", "no such column", "due in 719h")
	says(0, []string{"dead", "list", "--json", "--fingerprint", "abc"}, `"id":"m-2"`, `"id":"m-3"`,
		`"blocks_key":true`)
	says(0, []string{"dead", "groups"}, "2", "abc", "no such column")
	says(0, []string{"dead", "show", "m-2", "--json"}, `"data":"InNlY3JldCI="`)
	says(0, []string{"dead", "show", "m-2"}, "dead: ", "payload\n\"secret\"\n")
	says(2, []string{"dead", "redrive", "--yes", "--all"}, "--reason")
	for _, all := range [][]string{{"dead", "redrive"}, {"dead", "drop"}, {"parked", "release"}} {
		says(2, append(all, "--yes", "--reason", "fixed"), "which messages", "--all")
		// of a variable that was not set
		says(2, append(all, "--yes", "--all", "--reason", "fixed", ""), "an argument is empty", "--all")
		says(2, append(all, "--yes", "--reason", "fixed", "--consumer", ""), "--consumer", "it is empty")
		says(2, append(all, "--all", "--reason", "fixed"), "--yes")
		says(0, append(all, "--dry-run"), "would be done")
	}
	says(0, []string{"dead", "redrive", "--dry-run", "--json"}, `"meant":2`)
	says(0, []string{"dead", "redrive", "m-2", "--yes", "--reason", "fixed", "--by", "ann"}, "1 of 1")
	says(0, []string{"dead", "drop", "--yes", "--all", "--reason", "not ours", "--by", "ann", "--json"},
		`"done":1`)
	says(0, []string{"dead", "drop", "--yes", "--all", "--reason", "not ours"}, "skald: no message is selected")
	says(4, []string{"dead", "show", "m-3"}, "skald: no dead letter")
	until(t, "what was redriven is taken",
		func() bool { return b.taken() == "m-2" && b.count("skald_parked") == 1 })
	says(0, []string{"parked", "release", "--key", "k-m-1", "--yes", "--reason", "now"}, "1 of 1")
	until(t, "what was released is taken",
		func() bool { return b.taken() == "m-2 m-1" && b.count("skald_parked") == 0 })
	if said := text(t, b.db,
		`SELECT string_agg(action || ' ' || author || ' ' || reason || ' ' || id, ',' ORDER BY seq) FROM skald_audit WHERE author = 'ann'`); said != "redrive ann fixed m-2,drop ann not ours m-3" {
		t.Errorf("the audit has %s", said)
	}
	if n := b.count("skald_audit WHERE action = 'release' AND reason = 'now' AND id = 'm-1'"); n != 1 {
		t.Errorf("%d releases were noted", n)
	}
	if v, err := b.s.Seen(t.Context(), "stock",
		[]store.Identity{{Source: "/orders", ID: "m-3"}}); err != nil || v[0].Outcome != store.Rejected ||
		v[0].Reason != "dropped: not ours" {
		t.Errorf("the dropped one is %+v, %v", v, err)
	}
}
