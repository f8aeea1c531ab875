package inbox

import (
	"testing"
	"time"

	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/inbox/internal/partition"
)

// Batches double up to the limit while no message fails. They halve after a collision, and then do not
// grow for a time that depends on the cost of collisions.
func TestBatchSizeFollowsResults(t *testing.T) {
	type turn struct {
		what string // "well", "failed", "collided"
		n    int
		took time.Duration
		at   time.Duration
		want int
	}
	well := func(n, want int) turn { return turn{what: "well", n: n, want: want} }
	for name, c := range map[string]struct {
		most  int
		turns []turn
	}{
		"they double": {64, []turn{well(1, 2), well(2, 4), well(4, 8), well(8, 16), well(16, 32),
			well(32, 64), well(64, 64)}},
		"at most as many as the option has": {5, []turn{well(1, 2), well(2, 4), well(4, 5), well(5, 5)}},
		"one at a time":                     {1, []turn{well(1, 1), {"collided", 1, time.Second, 0, 1}}},
		"fewer messages prove nothing":      {64, []turn{well(1, 2), well(1, 2), well(2, 4), well(2, 4)}},
		"slow handlers": {64, []turn{{"well", 1, 150 * time.Millisecond, 0, 1},
			{"well", 1, 90 * time.Millisecond, 0, 2}, {"well", 2, 180 * time.Millisecond, 0, 2},
			{"well", 2, time.Second, 0, 1}}},
		"jobs that began together halve once": {64, []turn{well(1, 2), well(2, 4), well(4, 8),
			{"failed", 8, 0, 0, 4}, {"failed", 8, 0, 0, 4}, well(8, 8)}},
		"a collision": {8, []turn{well(1, 2), well(2, 4), well(4, 8),
			{"collided", 8, time.Second, time.Second, 4}, {"collided", 8, time.Second, time.Second, 4},
			{"well", 4, 0, 20 * time.Second, 4}, {"well", 4, 0, 21 * time.Second, 8}}},
		"collisions again": {8, []turn{well(1, 2), well(2, 4),
			{"collided", 4, time.Second, 0, 2}, {"well", 2, 0, 20 * time.Second, 4},
			{"collided", 4, time.Second, 20 * time.Second, 2}, {"well", 2, 0, 59 * time.Second, 2},
			{"well", 2, 0, time.Minute, 4}, {"well", 4, 0, time.Minute, 8}, // collisions count from 0
			{"collided", 8, time.Second, time.Minute, 4}, {"well", 4, 0, 80 * time.Second, 8}}},
		"a long collision": {8, []turn{well(1, 2), {"collided", 2, time.Hour, 0, 1},
			{"well", 1, 0, 599 * time.Second, 1}, {"well", 1, 0, 600 * time.Second, 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			b, start := newBatchSize(0), time.Now()
			if b.now != 1 || b.most != 64 {
				t.Errorf("it begins with %d and grows up to %d", b.now, b.most)
			}
			b.most = c.most
			for i, turn := range c.turns {
				switch at := start.Add(turn.at); turn.what {
				case "well":
					b.succeeded(turn.n, turn.took, at)
				case "failed":
					b.halve(turn.n)
				case "collided":
					b.collided(turn.n, turn.took, at)
				}
				if b.now != turn.want {
					t.Errorf("turn %d: up to %d messages share a transaction, want %d", i+1, b.now, turn.want)
				}
			}
		})
	}
}

// A batch begins with the number in Options.Batch.
func TestBatchSizeOfTheOption(t *testing.T) {
	for chosen, want := range map[int]int{-1: 1, 1: 1, 2: 2, 100: 100} {
		if b := newBatchSize(chosen); b.now != want || b.most != want {
			t.Errorf("with %d it begins with %d and grows up to %d", chosen, b.now, b.most)
		}
	}
}

// The results of jobs change the size of the next batch.
func TestResultsChangeTheBatchSize(t *testing.T) {
	job := func(n int, first exec.Result, what decide.Ending) (rs []exec.Result) {
		for range n {
			rs = append(rs, exec.Result{Entry: &partition.Entry{}, What: what})
		}
		rs[0].RolledBack, rs[0].Collided, rs[0].Took = first.RolledBack, first.Collided, first.Took
		return rs
	}
	failed := exec.Result{Entry: &partition.Entry{}, What: decide.Failed}
	for name, c := range map[string]struct {
		rs   []exec.Result
		want int
	}{
		"handled":         {job(8, exec.Result{}, decide.Handled), 16},
		"rejected":        {job(8, exec.Result{}, decide.Rejected), 16},
		"one failed":      {append(job(7, exec.Result{}, decide.Handled), failed), 8},
		"undone":          {job(8, exec.Result{RolledBack: true}, decide.Handled), 4},
		"a collision":     {job(8, exec.Result{RolledBack: true, Collided: 1}, decide.Handled), 4},
		"slow":            {job(8, exec.Result{Took: time.Second}, decide.Handled), 4},
		"a retry":         {[]exec.Result{{Entry: &partition.Entry{Retry: true}, What: decide.Handled}}, 8},
		"a smaller batch": {job(3, exec.Result{}, decide.Handled), 8},
	} {
		b := newBench(1, 64)
		b.size.now = 8
		if b.Adapt(c.rs); b.size.now != c.want {
			t.Errorf("%s: the size is %d, want %d", name, b.size.now, c.want)
		}
	}
}
