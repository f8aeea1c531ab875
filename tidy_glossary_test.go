package skald_test

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// retired are names that docs/glossary.md has another word for. Whole words of them must not come back:
// tables, views, functions and metrics in SQL, pages and deploy/, columns in SQL, identifiers in Go.
func retired() (everywhere, inSQL, inGo []string) {
	return []string{
			"skald_lane", "skald_lanes", "skald_lane_pending", "skald_tick", "skald_spot", "skald_aside",
			"skald_calling", "skald_keeping",
			"skald_maintained", "skald_maintenance", "skald_type", "skald_lent", "skald_here", "skald_place",
			"skald_moved", "skald_early",
			"skald_near", "skald_first", "skald_turn", "skald_guard", "skald_position", "skald_mark_timeless",
			"set_aside", "holds_key",
			"looked_at", "looked_seconds", "emptied_at", "emptied_seconds", "skald_outbox_lane_free",
			"skald_outbox_relay_lanes",
			"skald_inbox_lane_paused",
		}, []string{
			"lane", "lanes", "tick", "ticks", "aside", "claimer", "kills", "nth", "suspect", "reseat",
			"reseats", "anew",
		}, []string{
			"lane", "lanes", "Lane", "Lanes", "laneID", "newLane", "OutboxLane", "spot", "spots", "Spot",
			"Spots", "reseat", "reseats", "Reseat",
			"AsideFirst", "AsideMost", "SetAside", "Portion", "Kills", "ErrKills", "ErrAnew", "StepsBeside",
			"TookBeside", "errand", "errands",
			"newShelf", "deskKey", "deskOf",
		}
}

// found are the retired names in a file of the house, each with its line.
func found(name, text string) (out []string) {
	everywhere, inSQL, inGo := retired()
	switch {
	case path.Ext(name) == ".go":
		everywhere = inGo // a test may look for a table that is gone
	case path.Ext(name) == ".sql" && strings.HasPrefix(name, "store/"):
		everywhere = append(everywhere, inSQL...)
	}
	word := regexp.MustCompile(`(?:^|[^A-Za-z0-9_])(` + strings.Join(everywhere, "|") +
		`)(?:[^A-Za-z0-9_]|$)`)
	n := 0
	for line := range strings.Lines(text) {
		n++
		if m := word.FindStringSubmatch(line); m != nil {
			out = append(out, name+": "+m[1]+": "+strings.TrimSpace(line))
		}
	}
	return out
}

// TestGlossary: a name that was retired is in no SQL, no page and nothing to deploy.
func TestGlossary(t *testing.T) {
	read := 0
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if err == nil && name != "." && strings.HasPrefix(d.Name(), ".") {
				return fs.SkipDir
			}
			return err
		}
		page := path.Ext(name) == ".md" && (path.Dir(name) == "docs" || name == "README.md")
		code := path.Ext(name) == ".go" && name != "tidy_glossary_test.go"
		if !page && !code && path.Ext(name) != ".sql" && !strings.HasPrefix(name, "deploy/") {
			return nil
		}
		text, err := os.ReadFile(name)
		read++
		for _, line := range found(name, string(text)) {
			t.Error(line)
		}
		return err
	})
	if err != nil || read < 30 {
		t.Errorf("%d files were read: %v", read, err)
	}
	for _, text := range []string{"SELECT * FROM s.skald_lane;", "x\nskald_here('')", "a lane"} {
		if len(found("store/x/sql/a.sql", text)) != 1 {
			t.Errorf("%q is not found", text)
		}
	}
	if got := found("store/x/sql/a.sql", "SELECT skald_lanes_x, planes;"); got != nil {
		t.Errorf("found %v", got)
	}
}
