package need

import (
	"os"
	"slices"
	"testing"
)

// exploreVariable sets how much a run does of what takes minutes or hours. This file is the only place that
// reads it, but for the public suite storetest.
const exploreVariable = "SKALD_EXPLORE"

// Full reports whether explorers and suites take large samples, or everything: SKALD_EXPLORE is full or all.
// Otherwise (unset, or sample) they take samples that make test has the time for.
func Full() bool { return slices.Contains([]string{"full", "all"}, os.Getenv(exploreVariable)) }

// All reports whether explorers run every schedule that there is, which takes hours: SKALD_EXPLORE is all.
func All() bool { return os.Getenv(exploreVariable) == "all" }

// Nightly skips a test that make nightly runs and make test does not; why names the test that stays.
func Nightly(t testing.TB, why string) {
	t.Helper()
	if !Full() {
		t.Skipf("make nightly runs it (SKALD_EXPLORE=full): %s", why)
	}
}
