package need

import (
	"os"
	"slices"
	"testing"
)

// exploreVariable is the environment variable with the size of tests that can take minutes or hours. Only
// this file and the public suite storetest read it.
const exploreVariable = "SKALD_EXPLORE"

// Full reports whether SKALD_EXPLORE is full or all. Then tests take large samples or try everything.
// Otherwise they take small samples, so that make test is fast.
func Full() bool { return slices.Contains([]string{"full", "all"}, os.Getenv(exploreVariable)) }

// All reports whether SKALD_EXPLORE is all. Then tests of concurrency run every schedule, which takes hours.
func All() bool { return os.Getenv(exploreVariable) == "all" }

// Nightly skips a test unless make nightly runs it. The argument reason is the reason, or the name of a
// test that always runs instead.
func Nightly(t testing.TB, reason string) {
	t.Helper()
	if !Full() {
		t.Skipf("make nightly runs it (SKALD_EXPLORE=full): %s", reason)
	}
}
