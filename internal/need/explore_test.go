package need

import (
	"os"
	"slices"
	"testing"
)

// An unknown value would silently turn a full run into a sample.
func TestExploreIsKnown(t *testing.T) {
	known := []string{"", "sample", "full", "all"}
	if set := os.Getenv(exploreVariable); !slices.Contains(known, set) {
		t.Errorf("%s is %q: set it to sample, full or all, or unset it", exploreVariable, set)
	}
}
