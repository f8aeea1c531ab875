package sagatest_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/skald-go/skald/sagatest"
)

// silentTest is a T that only records.
type silentTest struct {
	*testing.T
	errors []string
}

func (h *silentTest) Errorf(format string, args ...any) {
	h.errors = append(h.errors, fmt.Sprintf(format, args...))
}

func (h *silentTest) Name() string { return "TestShop/with a bug" }

// TestFailureNamesItsReplay: a failure is reported with a command that repeats the run, and the repetition
// shows the same failure.
func TestFailureNamesItsReplay(t *testing.T) {
	world := build(largeLoad(), wiring{driver: noMark})
	h := &silentTest{T: t}
	sagatest.Explore(h, world, &sagatest.Options{Modes: []sagatest.Mode{sagatest.CrashAfter}})
	if len(h.errors) != 1 {
		t.Fatalf("%d reports", len(h.errors))
	}
	found := regexp.MustCompile(
		`SAGATEST_REPLAY='([^']+)' go test -count=1 -run '\^TestShop\$/\^with a bug\$'`).FindStringSubmatch(
		h.errors[0])
	if found == nil {
		t.Fatalf("no line to run it again in %s", h.errors[0])
	}
	t.Setenv(sagatest.Replay, found[1])
	again := &silentTest{T: t}
	if r := sagatest.Explore(again, world, nil); r.Schedules != 1 || len(again.errors) == 0 {
		t.Fatalf("again: %v, %v", r, again.errors)
	}
	for _, why := range again.errors {
		if !strings.Contains(h.errors[0], why) {
			t.Errorf("the replay reports %q", why)
		}
	}
}

// TestReplayOfNoIO: a replay fails if a fault of its schedule is never injected.
func TestReplayOfNoIO(t *testing.T) {
	t.Setenv(sagatest.Replay, "crash-after@3,crash-after@99999")
	h := &silentTest{T: t}
	sagatest.Explore(h, build(largeLoad(), wiring{}), nil)
	if len(h.errors) != 1 || !strings.Contains(h.errors[0], "the fault crash-after@99999 never came up") {
		t.Errorf("got %q", h.errors)
	}
}

func TestSchedulesReadAsTheyAreWritten(t *testing.T) {
	for _, text := range []string{"", "crash-before@1", "crash-after@17,pause@40,part-last@99"} {
		s, err := sagatest.ParseSchedule(text)
		if err != nil || s.String() != text {
			t.Errorf("%q is %q, %v", text, s, err)
		}
	}
	for _, text := range []string{"crash", "crash-after@0", "crash-after@x", "nothing@3", "@"} {
		if s, err := sagatest.ParseSchedule(text); err == nil {
			t.Errorf("%q is parsed as %q", text, s)
		}
	}
}
