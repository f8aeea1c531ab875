// This file applies the answer of a call to the partitions.

package checkpoint

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/store"
)

// Found has the parts of the answer to a Call that the inbox uses.
type Found struct {
	Read        bool // the other fields are valid
	Server      string
	Checkpoints []store.Checkpoint
	Unclean     bool // a partition was not left cleanly, so its claimed messages are due
}

// Done applies the answer of e. An error stops the consumer.
func (c *Checkpointer) Done(ctx context.Context, e Call) (found Found, err error) {
	now := c.o.Now()
	if e.Err != nil {
		for _, l := range e.advance {
			l.Trying = append(l.Trying, e.stamp)
		}
		if store.Incurable(e.Err) {
			return found, fmt.Errorf("consumer %s: %w", c.o.Group, e.Err)
		}
		if e.heartbeat != nil {
			c.types.since, c.types.again = time.Time{}, true
			c.types.acked = c.types.acked || e.heartbeat.progress
		}
		c.fails++
		c.shut = now.Add(backoff.After(c.fails, c.o.RetryFirst, failure.MostOutage))
		return found, nil
	}
	if c.fails = 0; e.heartbeat != nil {
		c.applyHeartbeat(*e.heartbeat)
		return found, nil
	}
	c.looked = now
	found = Found{Read: true, Server: e.answer.Server, Checkpoints: e.answer.Checkpoints}
	defer c.releaseChains()
	switch {
	case c.server != "" && c.server != e.answer.Server:
		c.moved = true
	case len(e.occupy) > 0:
		found.Unclean = c.openOccupied(ctx, e, now)
	default:
		c.compare(e, now)
		c.removeStored(e)
		if !e.look {
			c.at = now.Add(noteEvery)
		}
	}
	return found, nil
}

// removeStored removes the checkpoints of lost partitions that e has stored. If a partition was lost during
// the call, and e has stored its checkpoint, the new checkpoint gets the stamp of e.
func (c *Checkpointer) removeStored(e Call) {
	c.left = c.left[e.left:]
	for i := range c.left {
		at := slices.IndexFunc(e.checkpoints, func(s store.Checkpoint) bool {
			return s.Partition == c.left[i].Partition && s.Stamp == c.left[i].Stamp
		})
		if at >= 0 {
			c.left[i].Stamp = e.stamp
		}
	}
}

// openOccupied opens the partitions that e occupied. It reports whether the last owner of one of them did not
// leave it cleanly.
func (c *Checkpointer) openOccupied(ctx context.Context, e Call, now time.Time) (unclean bool) {
	if !c.begins.confirm(e) {
		c.moved = true
		return false
	}
	c.server = e.answer.Server
	for _, l := range e.occupy {
		s, there := checkpointOf(e.answer, l.Name)
		if !there || s.Origin != l.Origin {
			s = store.Checkpoint{Partition: l.Name, Origin: l.Origin, Position: -1}
		}
		s.Session, s.Stamp = c.session, e.stamp
		l.Checkpoint, l.Trying, l.Open, l.Server, l.Session = &s, nil, true, c.server, c.session
		l.At = max(l.At, s.Position)
		if l.Foreign {
			unclean = true
			l.Suspects, l.Redelivered, l.Tried = s.CrashSuspect, l.Origin == "", map[string]bool{}
			c.o.Logger.WarnContext(ctx, "inbox: the last owner did not leave a partition cleanly",
				"consumer", c.o.Group, "partition", l.Name, "by", l.Was.Session,
				"from", s.Position, "to", s.InFlightEnd, "suspected_to", s.CrashSuspect)
		}
	}
	c.at = now.Add(noteEvery)
	return unclean
}

// compare compares the stored checkpoints with those of this process. It closes partitions that another
// process has occupied. If the database was restored or the consumer rewound, it sets moved.
func (c *Checkpointer) compare(e Call, now time.Time) {
	sent := map[*partition.Partition]store.Checkpoint{}
	for i, l := range e.advance {
		sent[l] = e.checkpoints[i]
	}
	for _, l := range c.byName() {
		s, there := checkpointOf(e.answer, l.Name)
		if l.Shared {
			continue // an older build may have stored a checkpoint of it
		}
		if !l.Open {
			l.Was, l.Looked = &s, now
			l.Foreign = s.Session != "" && s.Session != c.session
			continue
		}
		next, stored := sent[l]
		switch {
		case there && stored && s.Stamp == e.stamp:
			next.Stamp, next.At = e.stamp, s.At
			l.Checkpoint, l.Trying, l.Begun = &next, nil, 0
		case there && (s.Stamp == l.Checkpoint.Stamp || slices.Contains(l.Trying, s.Stamp)):
			// The checkpoint is unchanged, or an earlier call stored it and its answer was lost.
			l.Checkpoint.Stamp, l.Checkpoint.Position, l.Checkpoint.InFlightEnd = s.Stamp, s.Position,
				s.InFlightEnd
			if stored {
				l.Trying = nil
			}
		case there && (s.Session != "" && s.Session != c.session || l.Visited(s, c.session)):
			// Another process occupies or occupied it. If the broker still assigns it to this process, occupy
			// it again.
			l.Open, l.Was, l.Foreign, l.Since, l.Looked = false, &s, s.Session != "", now, now
		case there || l.Origin != "":
			c.moved = true
		}
	}
}
