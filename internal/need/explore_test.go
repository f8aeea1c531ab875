package need

import (
	"os"
	"slices"
	"testing"
)

// A word that nobody knows would make a sample of a run that is meant to be whole.
func TestExploreIsKnown(t *testing.T) {
	known := []string{"", "sample", "full", "all"}
	if set := os.Getenv(exploreVariable); !slices.Contains(known, set) {
		t.Errorf("%s is %q: set it to sample, full or all, or unset it", exploreVariable, set)
	}
}
