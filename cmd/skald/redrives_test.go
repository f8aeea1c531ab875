package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald/store"
)

// A redrive that nobody watched: what became of each message is told afterwards, from the database.
func TestWhatBecameOfRedrivenMessages(t *testing.T) { onEachStore(t, testWhatBecameOfRedrivenMessages) }

func testWhatBecameOfRedrivenMessages(t *testing.T, fresh func(*testing.T) *bed) {
	m := morgueOn(fresh(t))
	for n := range 8 {
		m.bury(n, "", func(p *store.Parked) {
			switch n {
			case 5:
				p.Message.Type = "unknown" // to this build
			case 7:
				p.Dead.Fingerprint = "other"
			}
		})
	}
	m.fails = map[string]bool{"m-01": true, "m-02": true, "m-03": true, "m-04": true}
	m.no = map[string]bool{"m-06": true}
	p := start(t, m.env, "dead", "redrive", "--fingerprint", "abc", "--reason", "mended", "--by",
		"ann", "--yes")
	p.expect(0)
	if said := p.out.String(); said != "redrive: 7 of 7 messages done\noutcomes: skald dead redrives\n" {
		t.Errorf("it says %s", said)
	}
	outcomes := func(args ...string) (out []string) {
		t.Helper()
		p := start(t, m.env, append([]string{"dead", "redrives", "--json"}, args...)...)
		p.expect(0)
		for line := range strings.Lines(p.out.String()) {
			var o struct{ Who, Reason, Consumer, ID, Outcome, Why string }
			must(t, json.Unmarshal([]byte(line), &o))
			if o.Reason != "mended" || o.Consumer != "stock" {
				t.Errorf("it says %s", line)
			}
			out = append(out, strings.TrimSuffix(fmt.Sprint(o.ID, " ", o.Who, " ", o.Outcome,
				": ", strings.TrimPrefix(o.Why, "handle placed ")), ": "))
		}
		return out
	}
	is := func(got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("it says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	is(outcomes("--limit", "2"), "m-06 ann waiting", "m-05 ann waiting") // nobody runs
	m.run()
	until(t, "all but one are taken",
		func() bool { return len(m.ran()) == 6 && m.count("skald_parked WHERE dead_at IS NOT NULL") == 5 })
	file := filepath.Join(t.TempDir(), "data.json")
	must(t, os.WriteFile(file, []byte(`"other"`), 0o600))
	wants(t, m.told(0, "dead", "drop", "m-02", "--reason", "not ours", "--by", "bob"),
		map[string]any{"done": 1})
	wants(t, m.told(0, "dead", "edit", "m-03", "--reason", "a comma", "--by", "bob", "--data", "@"+file),
		map[string]any{"instead_of": "m-03"})
	m.mu.Lock()
	m.fails = nil
	m.mu.Unlock()
	wants(t, m.told(0, "dead", "redrive", "m-04", "--reason", "mended", "--by", "bob"),
		map[string]any{"done": 1})
	until(t, "what was redriven and edited is taken",
		func() bool { return len(m.ran()) == 8 && m.count("skald_parked") == 3 })
	is(outcomes(), "m-04 bob done", "m-06 ann rejected: no", "m-05 ann waiting", "m-04 ann again",
		"m-03 ann edited: a comma (bob)", "m-02 ann dropped: not ours (bob)",
		"m-01 ann dead: m-01: permanent: still no such column", "m-00 ann done")
	is(outcomes("m-04", "--limit", "1"), "m-04 bob done")
	is(outcomes("--consumer", "another"))
	is(outcomes("--until", "1h"))
	p = start(t, m.env, "dead", "redrives", "--limit", "7", "--since", "1h")
	p.expect(0)
	if said := p.out.String(); !strings.Contains(said,
		"7 redriven: 1 done, 1 rejected, 1 dead, 1 waiting, 1 dropped, 1 edited, 1 again; earlier redrives are not shown: --limit 0") {
		t.Errorf("it says %s", said)
	}
	m.exec("DELETE FROM skald_mark")
	m.exec("UPDATE skald_parked SET dead_at = NULL, attempts = 3 WHERE id = 'm-01'")
	is(outcomes("m-00"), "m-00 ann finished")
	is(outcomes("m-01"), "m-01 ann failed: m-01: permanent: still no such column")
}

// until polls ok for up to 60 s.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// A key of any bytes is typed as it is printed.
func TestKeysAreTypedAsTheyArePrinted(t *testing.T) {
	t.Parallel()
	m := newMorgue(t)
	keys := []string{"plain", "zwei Wörter", "a\x00\xff", `"quoted" \`, "$HOME", "base64:AP8=",
		"line\n", "-x"}
	for n, key := range keys {
		m.bury(n, key, nil)
	}
	m.bury(90, "", func(p *store.Parked) { p.Message.Key = []byte{} })
	m.bury(91, "", func(p *store.Parked) { p.Message.Key = nil })
	p := start(t, m.env, "dead", "list")
	p.expect(0)
	said := p.out.String()
	for n, typed := range []string{`"plain"`, `"zwei Wörter"`, "base64:YQD/", "base64:InF1b3RlZCIgXA==",
		"base64:JEhPTUU=", "base64:YmFzZTY0OkFQOD0=", "base64:bGluZQo=", `"-x"`} {
		if !strings.Contains(said, "  "+typed+"  ") {
			t.Errorf("key %q is not printed as %s", keys[n], typed)
		}
		typed = strings.Trim(typed, `"`)
		p := start(t, m.env, "dead", "list", "--json", "--key", typed)
		p.expect(0)
		var one struct {
			ID  string
			Key []byte
		}
		if err := json.Unmarshal([]byte(p.out.String()), &one); err != nil || string(one.Key) != keys[n] {
			t.Errorf("--key %s lists %s, %v", typed, &p.out, err)
		}
	}
	wants(t, m.told(0, "dead", "redrive", "--key", "base64:YQD/", "--reason", "mended"),
		map[string]any{"meant": 1, "done": 1})
	// the empty key, and not all of them
	wants(t, m.told(0, "dead", "drop", "--key", "", "--reason", "not ours"), map[string]any{"meant": 1})
	start(t, m.env, "dead", "drop", "--key", "base64:no", "--reason", "x", "--yes").expect(2,
		"copy the key from --json")
	wants(t, m.said(0, "outbox", "write", "--topic", "t", "--type", "refund", "--key", "base64:YQD/",
		"--data", "{}", "--reason", "x"), map[string]any{"key": "YQD/"})
}

// A dead letter at a call to the outside is not edited: the message in its place would not know of the call.
func TestEditAtACall(t *testing.T) {
	t.Parallel()
	m := newMorgue(t)
	m.bury(1, "k",
		func(p *store.Parked) { p.Call = &store.Call{Key: "refund-1", Request: "{}", Since: time.Now()} })
	file := filepath.Join(t.TempDir(), "data.json")
	must(t, os.WriteFile(file, []byte(`"mended"`), 0o600))
	start(t, m.env, "dead", "edit", "m-01", "--data", "@"+file, "--reason", "x", "--yes").expect(2,
		"with key refund-1")
	kept, err := store.ListParked(t.Context(), m.s, store.ParkedQuery{Limit: 10})
	if err != nil || len(kept) != 1 || kept[0].Call == nil || kept[0].Dead == nil {
		t.Errorf("kept %+v, %v", kept, err)
	}
}
