package need

import (
	"os"
	"slices"
	"testing"
)

// exploreVariable sets the size of tests that can take minutes or hours. Only this file reads it, except
// for the public suite storetest.
const exploreVariable = "SKALD_EXPLORE"

// Full reports whether SKALD_EXPLORE is full or all: explorers and suites then take large samples, or
// everything. Otherwise (unset, or sample) they take samples that fit into make test.
func Full() bool { return slices.Contains([]string{"full", "all"}, os.Getenv(exploreVariable)) }

// All reports whether SKALD_EXPLORE is all: explorers then run every schedule, which takes hours.
func All() bool { return os.Getenv(exploreVariable) == "all" }

// Nightly skips a test that only make nightly runs; why names the test that always runs.
func Nightly(t testing.TB, why string) {
	t.Helper()
	if !Full() {
		t.Skipf("make nightly runs it (SKALD_EXPLORE=full): %s", why)
	}
}
