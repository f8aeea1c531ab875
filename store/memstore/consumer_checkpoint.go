package memstore

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

// Checkpoints returns the checkpoints of a consumer, by partition.
func (cs *consumerTable) Checkpoints(consumer string) (out []store.Checkpoint) {
	for key, c := range cs.checkpoints {
		if key.consumer == consumer {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b store.Checkpoint) int { return cmp.Compare(a.Partition, b.Partition) })
	return out
}

// Take makes a session the owner of partitions. It returns the sessions that owned the partitions before.
func (cs *consumerTable) Take(a *store.SyncRequest, now time.Time) (left []string) {
	for _, c := range a.Checkpoints {
		was, there := cs.checkpoints[checkpointKey{a.Consumer, c.Partition}]
		if there && was.Origin == c.Origin {
			c = was
		}
		if was.Session != "" && was.Session != a.Session {
			left = append(left, was.Session)
			if was.Origin == c.Origin {
				c.CrashSuspect = was.InFlightEnd
			}
		}
		c.Session, c.Stamp, c.At = a.Session, a.Stamp, now
		cs.checkpoints[checkpointKey{a.Consumer, c.Partition}] = c
	}
	return left
}

// Advance stores the checkpoints that no other process has changed since the caller read them.
func (cs *consumerTable) Advance(a *store.SyncRequest, now time.Time) {
	for _, c := range a.Checkpoints {
		if was, there := cs.checkpoints[checkpointKey{a.Consumer, c.Partition}]; there &&
			was.Stamp == c.Stamp && a.Server == "" {
			c.Origin, c.CrashSuspect, c.Stamp, c.At = was.Origin, was.CrashSuspect, a.Stamp, now
			cs.checkpoints[checkpointKey{a.Consumer, c.Partition}] = c
		}
	}
}

// Rewindable returns store.ErrLost unless the guard of r holds.
func (cs *consumerTable) Rewindable(r *store.Rewind) error {
	was, there := cs.checkpoints[checkpointKey{r.Consumer, r.Partition}]
	if !there || was.Origin != r.Origin || was.Position >= 0 && was.Position <= r.Position {
		return fmt.Errorf("rewind partition %s: %w", r.Partition, store.ErrLost)
	}
	return nil
}

// Rewind moves a consumer back in a partition.
func (cs *consumerTable) Rewind(r *store.Rewind, now time.Time) {
	key := checkpointKey{r.Consumer, r.Partition}
	c := cs.checkpoints[key]
	c.Position, c.Stamp, c.At = r.Position, r.Stamp, now
	cs.checkpoints[key] = c
}

// Control stores an instruction of an operator for the processes of a consumer.
func (cs *consumerTable) Control(c *store.Control, now time.Time) {
	for _, one := range c.Checkpoints {
		one.At = now
		cs.checkpoints[checkpointKey{c.Consumer, one.Partition}] = one
	}
}
