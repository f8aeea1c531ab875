package sagatest_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/sagatest"
)

// sampled limits an exploration to n schedules, and to a third of n under the race detector, which is slow
// and finds nothing in one thread. In a full run (need.Full) it returns 0: no limit.
func sampled(n int) int {
	switch {
	case need.Full():
		return 0
	case raceDetector:
		return max(1, n/3)
	}
	return n
}

// several limits explorations with several faults in each run, and runs on a server, which are slow: few
// schedules in a sample, full in a full run, no limit (0) with need.All.
func several(few, full int) int {
	switch {
	case need.All():
		return 0
	case need.Full():
		return full
	}
	return max(sampled(few), min(few, 8))
}

// TestExploreModelEverySingleFault injects each fault at each I/O of three services in four processes.
func TestExploreModelEverySingleFault(t *testing.T) {
	sagatest.Explore(t, build(largeLoad(), wiring{}), &sagatest.Options{Sample: sampled(300), Failures: 3})
}

// TestExploreModelEverySingleFaultWithRetention adds a retention in every process that deletes each row once
// every shard has passed it. Even after a crash, no unpublished row is deleted.
// Interleaving 5.
func TestExploreModelEverySingleFaultWithRetention(t *testing.T) {
	sagatest.Explore(t, build(largeLoad(), wiring{keep: true}),
		&sagatest.Options{Sample: sampled(300), Failures: 3})
}

// TestExploreModelEverySingleFaultWithDeferredRows adds a missing topic: rows are deferred, block their
// keys, and are published in order later.
func TestExploreModelEverySingleFaultWithDeferredRows(t *testing.T) {
	sagatest.Explore(t, buildLate(largeLoad()), &sagatest.Options{Sample: sampled(300), Failures: 3})
}

// TestExploreModelEverySingleFaultWithARecreatedTopic deletes a topic with its unread messages, and creates
// it again. The stored messages are published again, before newer ones, after any crash.
// Interleaving 9.
func TestExploreModelEverySingleFaultWithARecreatedTopic(t *testing.T) {
	for _, turn := range []int{5, 8, 11, 14, 17} {
		t.Run(fmt.Sprint("turn ", turn), func(t *testing.T) {
			sagatest.Explore(t, buildAnew(largeLoad(), wiring{}, turn),
				&sagatest.Options{Sample: sampled(60), Failures: 3})
		})
	}
}

// TestExploreModelEverySingleFaultWithCancellations: customers cancel during the payment. The cancellation
// arrives on another topic before, after and during the payment, with any crash.
func TestExploreModelEverySingleFaultWithCancellations(t *testing.T) {
	sagatest.Explore(t, build(cancelLoad(), wiring{}), &sagatest.Options{Sample: sampled(300), Failures: 3})
}

func TestExploreModelEveryPairOfCrashes(t *testing.T) {
	sagatest.Explore(t, build(smallLoad(), wiring{}), &sagatest.Options{
		Modes: []sagatest.Mode{}, Pairs: true, Sample: several(200, 2000), Failures: 3,
	})
}

// TestExploreModelSeveralFaultsAtOnce injects two to five faults in a run, drawn by a fixed seed: crashes,
// lost answers, parts and pauses.
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
