package main_test

import (
	"strings"
	"testing"

	"github.com/skald-go/skald/store"
)

// A consumer gets a new name with all that is kept of it; not while its processes live, and not one that has
// done anything.
func TestInboxRename(t *testing.T) {
	onEachStore(t, func(t *testing.T, fresh func(*testing.T) *bed) {
		b := fresh(t)
		s := b.migrate().s
		at := []string{"consumer", "rename", "stock", "shelf", "--store=" + b.at,
			"--broker=kafka://localhost:1"}
		with := func(more ...string) []string { return append(at[:len(at):len(at)], more...) }
		start(t, nil, with("--yes")...).expect(2, "--reason")
		start(t, nil, with("--dry-run")...).expect(4, "no consumer stock")
		for _, name := range []string{"a\nb", "a\x1b[2Jb", "a\u202eb", "a\xff"} {
			at[3] = name
			start(t, nil, with("--dry-run")...).expect(2, "the new name", "control character")
			start(t, nil, "consumer", "pause", "--store="+b.at, "--consumer="+name, "--reason=r").
				expect(2, "--consumer", "control character")
		}
		at[3] = "shelf"
		m := store.Mark{Consumer: "stock", Identity: store.Identity{Source: "/o", ID: "1"},
			Outcome: store.Done}
		_, err := s.Apply(t.Context(), store.Effect{Mark: &m})
		must(t, err)
		p := start(t, nil, with("--dry-run")...)
		if p.expect(0); !strings.Contains(p.out.String(), "stock has 1 marks") {
			t.Errorf("it says %s", &p.out)
		}
		start(t, nil, with("--reason=split")...).expect(2, "--yes")
		_, err = s.SyncConsumer(t.Context(), store.SyncRequest{Consumer: "shelf",
			Heartbeat: &store.Heartbeat{Own: []store.Kind{{Topic: "orders", Type: "placed"}}}})
		must(t, err)
		start(t, nil, with("--yes", "--reason=split")...).expect(2, "a process of shelf sent a heartbeat")
		at[3] = "rack"
		p = start(t, nil, with("--yes", "--json", "--reason=split", "--by=ann")...)
		if p.expect(0); !strings.Contains(p.out.String(), `"renamed":true`) {
			t.Errorf("it says %s", &p.out)
		}
		seen, err := s.Seen(t.Context(), "rack", []store.Identity{m.Identity})
		if must(t, err); seen[0].Outcome != store.Done {
			t.Errorf("the new name has %+v", seen)
		}
	})
}
