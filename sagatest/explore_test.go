package sagatest_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/sagatest"
)

// sampled bounds an exploration to n schedules, and to a third of n under the race detector, which is slow
// and finds nothing in one thread. A full run (need.Full) is not bounded: 0.
func sampled(n int) int {
	switch {
	case need.Full():
		return 0
	case raceDetector:
		return max(1, n/3)
	}
	return n
}

// several bounds explorations of several faults in each run, which have no end, and of runs on a server,
// which take long: few schedules in a sample, full in a full run, all (0) where need.All asks for them.
func several(few, full int) int {
	switch {
	case need.All():
		return 0
	case need.Full():
		return full
	}
	return max(sampled(few), min(few, 8))
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
		Modes: []sagatest.Mode{}, Pairs: true, Sample: several(200, 2000), Failures: 3,
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
