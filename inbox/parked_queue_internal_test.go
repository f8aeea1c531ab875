package inbox

import (
	"testing"
	"time"

	"github.com/skald-go/skald/inbox/internal/checkpoint"
	"github.com/skald-go/skald/inbox/internal/partition"
)

// What is kept is counted at times, for what others park or free, and more seldom where that is long: a
// hundredth of the time at most, and a quarter of that where no partition waits for others to make room. One
// that took for ever does not end the counting.
func TestCountThatIsLongIsMadeSeldom(t *testing.T) {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		took, want time.Duration
		full       int
	}{{0, lookIdle, 0}, {time.Millisecond, lookIdle, 1}, {time.Second / 2, 200 * time.Second, 0}, {time.Second, 100 * time.Second, 1},
		{time.Minute, 5 * time.Minute, 0}, {time.Minute, 5 * time.Minute, 1}} {
		took, want := c.took, c.want
		in := &Inbox[struct{}]{parkedQueue: newParkedQueue(), checkpoints: &checkpoint.Checkpointer{Partitions: map[string]*partition.Partition{"feed/0": {Full: c.full}}}}
		s := &in.parkedQueue
		s.counted, s.took, s.some, s.changed, s.at = from, took, true, false, from.Add(time.Hour)
		for _, at := range []time.Duration{want - time.Millisecond, want} {
			if _, count, _ := in.wants(from.Add(at), tellKept); count != (at == want) {
				t.Errorf("a count that takes %v, %v later: %v", took, at, count)
			}
		}
		s.changed = true // by us: it is told of sooner
		if _, count, _ := in.wants(from.Add(tellKept), tellKept); !count {
			t.Errorf("a count that takes %v is not made behind a change", took)
		}
	}
}
