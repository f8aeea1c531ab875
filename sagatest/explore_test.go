package sagatest_test

import (
	"testing"

	"github.com/skald-go/skald/sagatest"
)

func TestModelSingle(t *testing.T) {
	sagatest.Explore(t, build(largeLoad(), wiring{}), &sagatest.Options{Failures: 3})
}

func TestModelLateTopic(t *testing.T) {
	sagatest.Explore(t, buildLate(largeLoad()), &sagatest.Options{Failures: 3})
}

func TestModelPairs(t *testing.T) {
	sagatest.Explore(t, build(smallLoad(), wiring{}), &sagatest.Options{Modes: []sagatest.Mode{}, Pairs: true, Failures: 3})
}
