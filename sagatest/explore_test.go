package sagatest_test

import (
	"os"
	"testing"

	"github.com/skald-go/skald/sagatest"
)

// sampled bounds an exploration where there is not the time for all of it: under the race detector, which is slow
// and has nothing to find in one thread, and in short runs. SKALD_EXPLORE=full runs everything everywhere.
func sampled(n int) int {
	if os.Getenv("SKALD_EXPLORE") != "full" && (raceDetector || testing.Short()) {
		return n
	}
	return 0
}

// Every I/O of three services in four processes, and everything that can go wrong at it.
func TestModelEverySingleFault(t *testing.T) {
	sagatest.Explore(t, build(largeLoad(), wiring{}), &sagatest.Options{Sample: sampled(300), Failures: 3})
}

// The same while a topic is missing: rows are set aside, their keys held, and published in order later.
func TestModelEverySingleFaultWithRowsSetAside(t *testing.T) {
	sagatest.Explore(t, buildLate(largeLoad()), &sagatest.Options{Sample: sampled(300), Failures: 3})
}

func TestModelEveryPairOfCrashes(t *testing.T) {
	sagatest.Explore(t, build(smallLoad(), wiring{}), &sagatest.Options{
		Modes: []sagatest.Mode{}, Pairs: true, Sample: sampled(600), Failures: 3,
	})
}
