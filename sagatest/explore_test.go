package sagatest_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/skald-go/skald/sagatest"
)

// sampled bounds an exploration where there is not the time for all of it: under the race detector, which is
// slow and has nothing to find in one thread, a third of n, and in short runs, n. SKALD_EXPLORE=full runs
// everything everywhere, but for what several bounds.
func sampled(n int) int {
	switch explore := os.Getenv("SKALD_EXPLORE"); {
	case explore == "full" || explore == "all":
		return 0
	case raceDetector:
		return max(1, n/3)
	case testing.Short():
		return n
	}
	return 0
}

// several bounds an exploration of more than one fault in each run, of which there is no end, or of runs on a
// server, which take long: few where sampled does, else full; and where SKALD_EXPLORE is all not at all (0).
func several(few, full int) int {
	switch {
	case os.Getenv("SKALD_EXPLORE") == "all":
		return 0
	case sampled(1) > 0:
		return max(sampled(few), min(few, 8))
	}
	return full
}

// Every I/O of three services in four processes, and everything that can go wrong at it.
func TestExploreModelEverySingleFault(t *testing.T) {
	sagatest.Explore(t, build(largeLoad(), wiring{}), &sagatest.Options{Sample: sampled(300), Failures: 3})
}

// The same beside a retention that empties each row as soon as every shard has passed it, in every process:
// none goes that was not published, whatever crashes.
// Interleaving 5.
func TestExploreModelEverySingleFaultWithRetention(t *testing.T) {
	sagatest.Explore(t, build(largeLoad(), wiring{keep: true}),
		&sagatest.Options{Sample: sampled(300), Failures: 3})
}

// The same while a topic is missing: rows are deferred, their keys held, and published in order later.
func TestExploreModelEverySingleFaultWithRowsSetAside(t *testing.T) {
	sagatest.Explore(t, buildLate(largeLoad()), &sagatest.Options{Sample: sampled(300), Failures: 3})
}

// The same while a topic is deleted, with what nobody has read of it, and made anew: what is kept of it comes
// again, before anything newer, whatever crashes.
// Interleaving 9.
func TestExploreModelEverySingleFaultWithATopicMadeAnew(t *testing.T) {
	for _, turn := range []int{5, 8, 11, 14, 17} {
		t.Run(fmt.Sprint("turn ", turn), func(t *testing.T) {
			sagatest.Explore(t, buildAnew(largeLoad(), wiring{}, turn),
				&sagatest.Options{Sample: sampled(60), Failures: 3})
		})
	}
}

// Customers cancel while payment is under way: the cancellation comes before, behind and in the midst of what
// it cancels, on another topic, whatever crashes.
func TestExploreModelEverySingleFaultWithCancellations(t *testing.T) {
	sagatest.Explore(t, build(cancelLoad(), wiring{}), &sagatest.Options{Sample: sampled(300), Failures: 3})
}

func TestExploreModelEveryPairOfCrashes(t *testing.T) {
	sagatest.Explore(t, build(smallLoad(), wiring{}), &sagatest.Options{
		Modes: []sagatest.Mode{}, Pairs: true, Sample: several(600, 2000), Failures: 3,
	})
}

// Two to five faults at once, drawn by a fixed seed: crashes, lost answers, parts and pauses in one run.
func TestExploreModelSeveralFaultsAtOnce(t *testing.T) {
	n := cmp.Or(several(60, 1000), 3000)
	for name, world := range map[string]func(*sagatest.World) error{
		"topics there": build(largeLoad(), wiring{}), "a topic late": buildLate(largeLoad()),
		"a topic made anew": buildAnew(largeLoad(), wiring{}, 9),
	} {
		t.Run(name, func(t *testing.T) {
			sagatest.Explore(t, world, &sagatest.Options{Schedules: drawn(5, n), Failures: 3})
		})
	}
}

func drawn(seed uint64, n int) (all []sagatest.Schedule) {
	modes := []sagatest.Mode{
		sagatest.CrashBefore, sagatest.CrashAfter, sagatest.ErrorAfter, sagatest.PartFirst, sagatest.PartLast,
		sagatest.Pause,
	}
	r := rand.New(rand.NewPCG(seed, 1))
	for range n {
		var s sagatest.Schedule
		at := 0
		for range 2 + r.IntN(4) {
			at += 1 + r.IntN(150)
			s = append(s, sagatest.Fault{Mode: modes[r.IntN(len(modes))], At: at})
		}
		all = append(all, s)
	}
	return all
}
