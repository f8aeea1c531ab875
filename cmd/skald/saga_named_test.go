package main_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What was asked for is named where it is not there, with what is known; an empty answer is not silent.
func TestSagasThatAreNotThere(t *testing.T) {
	t.Parallel()
	b := onSQLite(t).migrate()
	none := filepath.Join(t.TempDir(), "none.json")
	must(t, os.WriteFile(none, []byte(`{"format":1,"definitions":[]}`), 0o600))
	empty := start(t, b.env, "saga", "check", "--definitions", none)
	if empty.expect(0); !strings.Contains(empty.out.String(), "no saga runs in this database") {
		t.Errorf("it says %q", &empty.out)
	}
	b.sagas("o-1", "o-2")
	why := []string{"--reason", "x"}
	for _, verb := range []string{"cancel", "retry", "pause"} {
		start(t, b.env, slices.Concat([]string{"saga", verb, "o-9"}, why)...).expect(4, `no saga "o-9" in`)
		start(t, b.env, slices.Concat([]string{"saga", verb, "ordr", "o-1"}, why)...).expect(4,
			`this database has no saga "ordr"`, "it has order")
	}
	start(t, b.env, "saga", "list", "--at", "nix").expect(4, `this database has no step "nix"`,
		"it has approve")
	start(t, b.env, "saga", "list", "--at", "approve/1").expect(0)
	start(t, b.env, "doctor", "extra").expect(2, `skald doctor takes no arguments, but "extra" was given`)

	b.exec("UPDATE skald_saga SET status = 'done', ended_at = 1 WHERE key = 'o-1'")
	dry := start(t, b.env, "saga", "cancel", "--all", "--dry-run")
	if dry.expect(0); !strings.Contains(dry.out.String(), "cancel: 1 of 1 sagas would be changed") {
		t.Errorf("it says %q", &dry.out)
	}
	b.exec("UPDATE skald_saga SET status = 'done', ended_at = 1")
	start(t, b.env, "saga", "cancel", "--all", "--dry-run").expect(0, "no running saga is selected")
}

// The doctor says how many sagas builds left to others, and the command that lists them, which runs as it is
// printed; show says why.
func TestDoctorCountsWhatIsLeft(t *testing.T) {
	t.Parallel()
	b := onSQLite(t).migrate()
	b.sagas("o-1", "o-2")
	const inAWhile = "CAST(unixepoch('subsec') * 1000 AS INTEGER) + 30000"
	b.exec("UPDATE skald_saga SET error = 'left to another build: it has no ship', session = '', " +
		"since = " + inAWhile + " - 60000, retry = " + inAWhile + ", due = " + inAWhile + " WHERE key = 'o-1'")
	doctor(t, 0, map[string]string{"store/sagas of order": "ok 2 running, 0 compensating; of them 0 stuck, " +
		"0 paused, 1 failing; builds left 1 to others (skald saga list --name order --error " +
		"'left to another build')"}, "--store", b.at)
	list := start(t, b.env, "saga", "list", "--name", "order", "--error", "left to another build", "--json")
	if list.expect(0); strings.Count(list.out.String(), `"key"`) != 1 {
		t.Errorf("%s", &list.out)
	}
	show := start(t, b.env, "saga", "show", "o-1")
	if show.expect(0); !strings.Contains(show.out.String(), "left to another build: it has no ship, since ") {
		t.Errorf("%s", &show.out)
	}
}
