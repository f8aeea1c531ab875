package sqlitestore

import (
	"slices"
	"strings"
	"testing"
)

// TestPullWeighsEachRowOnce checks that a coroutine computes the size of a row. Without a coroutine, SQLite
// computes the size again for each column. The plan may not sort or materialize the window, because a window
// has no limit.
func TestPullWeighsEachRowOnce(t *testing.T) {
	_, db, _ := fresh(t)
	text, err := texts()
	if err != nil {
		t.Fatal(err)
	}
	plan := planWith(t, db, ask{sql: text["Pull"], args: []any{0, 100, 0, 1023}})
	if !strings.HasPrefix(plan[0], "CO-ROUTINE") || slices.ContainsFunc(plan, func(line string) bool {
		return strings.Contains(line, "TEMP B-TREE") || strings.HasPrefix(line, "MATERIALIZE")
	}) {
		t.Error(strings.Join(plan, "\n"))
	}
}
