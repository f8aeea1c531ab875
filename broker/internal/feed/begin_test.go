package feed

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/begin.txt")

// docs/brokers.md has the table that drivers implement. Update it with: go test ./broker/internal/feed
// -update
func TestTableOfBeginnings(t *testing.T) {
	const page = "testdata/begin.txt"
	got := printed()
	if *update {
		if err := os.WriteFile(page, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{page, "../../../docs/dev/design.md"} {
		want, err := os.ReadFile(name)
		if err != nil || !strings.Contains(string(want), got) {
			t.Errorf("%s does not have the table (%v), which is:\n%s", name, err, got)
		}
	}
}

func printed() string {
	var b strings.Builder
	b.WriteString("| the database has | the broker has | the partition begins at | WARN |\n|---|---|---|---|\n")
	for _, r := range rules() {
		warn := ""
		if r.again {
			warn = "yes"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.Database, r.Group, r.Origin, warn)
	}
	return b.String()
}

func (d Database) String() string {
	return [...]string{"not asked: the group has no database", "nothing of the group",
		"checkpoints of the group, none of this partition", "a checkpoint of this partition"}[d]
}

func (g Group) String() string {
	return [...]string{"nothing of the group", "positions of the group, none of this partition",
		"a position that another client stored", "a position that Skald stored"}[g]
}

func (o Origin) String() string {
	return [...]string{"`start`", "the oldest retained message", "the first position that Skald stored, else the oldest retained message",
		"the broker's position", "the checkpoint", "the lower of both"}[o]
}

// Each combination has one rule, and no partition begins after its database's checkpoint.
func TestEachBeginningHasOneRule(t *testing.T) {
	seen := map[[2]int]int{}
	for _, r := range rules() {
		seen[[2]int{int(r.Database), int(r.Group)}]++
	}
	for d := Unasked; d <= Has; d++ {
		for g := NoGroup; g <= Own; g++ {
			if n := seen[[2]int{int(d), int(g)}]; n != 1 {
				t.Errorf("%s, %s: %d rules", d, g, n)
			}
		}
	}
}

func TestBeginningsByNumber(t *testing.T) {
	for name, c := range map[string]struct {
		f         Facts
		at, again int64
	}{
		"a checkpoint behind the broker": {Facts{Asked: true, Consumer: true, Checkpoint: 4, Group: true,
			Position: 9, Own: true, First: 0, End: 9}, 4, 0},
		"a checkpoint ahead of the broker": {Facts{Asked: true, Consumer: true, Checkpoint: 9, Group: true,
			Position: 4, Own: true, First: 0, End: 9}, 4, 0},
		"a broker that forgot": {Facts{Asked: true, Consumer: true, Checkpoint: 9, Position: None,
			First: None, End: 12}, 9, 0},
		"a restored database": {Facts{Asked: true, Checkpoint: None, Group: true, Position: 40, Own: true,
			First: 10, Oldest: 5, End: 50}, 10, 30},
		"a restored database, and retention": {Facts{Asked: true, Checkpoint: None, Group: true, Position: 40,
			Own: true, First: 0, Oldest: 5, End: 50}, 0, 35},
		"a topic that was made again": {Facts{Asked: true, Consumer: true, Checkpoint: None, Position: None,
			First: None, Oldest: 3, End: 93}, 3, 90},
		"a new group": {Facts{Asked: true, Checkpoint: None, Position: None, First: None, End: 90}, None, 0},
	} {
		if at, again := c.f.Begin(); at != c.at || again != c.again {
			t.Errorf("%s: at %d, %d again; want %d, %d", name, at, again, c.at, c.again)
		}
	}
}
