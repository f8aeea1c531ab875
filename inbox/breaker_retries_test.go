package inbox

import (
	"testing"
	"time"
)

// While other messages are ready, failing retries get a twentieth of the started messages and of the workers'
// time.
func TestRetriesThatFailGetLittle(t *testing.T) {
	now := time.Now()
	r := newRetries(4)
	r.Begin()
	r.End(false, time.Minute, now)
	allowed := func(others, want bool) {
		t.Helper()
		if r.Allowed(others, now) != want {
			t.Fatalf("allowed next to others (%v): %v", others, !want)
		}
	}
	allowed(false, true)
	allowed(true, false)
	r.Others(100)
	allowed(true, false) // it took a minute of one of four workers
	now = now.Add(4*time.Minute + time.Second)
	allowed(true, true)
	r.Begin()
	allowed(true, false)
	allowed(false, false)
	if r.End(true, time.Minute, now); r.Most() < 1000 {
		t.Errorf("only %d may be claimed though they succeed", r.Most())
	}
	for n := range 4 { // as many as there are workers, after each success
		allowed(true, true)
		r.Begin()
		if n == 0 {
			r.End(true, 0, now)
			r.Begin()
		}
	}
	allowed(true, false)
	r.End(false, 0, now)
	if r.Most() != 2 {
		t.Errorf("%d may be claimed though they fail", r.Most())
	}
}
