package inbox

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/inbox/internal/partition"
)

// A source is what one producer sends in one partition. Malformed messages are mostly one producer's fault:
// they stop its messages in that partition, and nobody else's.
type source struct{ name, partition string }

// tryAgain is how soon it is looked again whether the message that is tried has an answer.
const tryAgain = 100 * time.Millisecond

func sourceOf(e *partition.Entry) source {
	if !e.Readable() {
		return source{partition: e.Partition} // nobody knows who sent it
	}
	return source{e.Source, e.Partition}
}

// sources are those of which malformed messages came. They belong to one goroutine.
type sources struct {
	o        limits
	log      *slog.Logger
	schedule *partition.Schedule
	of       map[source]*consumerBreaker
}

// newSources are none yet. What they hold back waits in s.
func newSources(o limits, log *slog.Logger, s *partition.Schedule) *sources {
	return &sources{o: o, log: log, schedule: s, of: map[source]*consumerBreaker{}}
}

// Clear closes all of their breakers.
func (s *sources) Clear() { s.of = map[source]*consumerBreaker{} }

// Note counts a result for its source, where malformed messages came of it, and says aloud what comes of it.
func (s *sources) Note(ctx context.Context, r exec.Result, now time.Time) {
	if r.Entry.Parked != nil || s.o.Off {
		return
	}
	from := sourceOf(r.Entry)
	b := s.of[from]
	if b == nil && (r.Class != failure.Malformed || r.Print == "") {
		return
	}
	if b == nil {
		b = newBreaker(s.o)
		s.of[from] = b
	}
	switch opened, closed := b.Note(r, now); {
	case opened:
		s.log.ErrorContext(ctx,
			"inbox: malformed messages: what this source sends in this partition is not taken; others go on",
			"source", from.name, "partition", from.partition, "why", b.why, "until", b.until)
	case closed:
		delete(s.of, from)
		s.log.InfoContext(ctx, "inbox: a source is taken again: a message of it succeeded",
			"source", from.name, "partition", from.partition)
	}
}

// Held says for how long the head of c must wait because its source sends malformed messages. Once that has
// rested, the message that came last is tried: a producer that was repaired sends good ones after the bad.
func (s *sources) Held(c *partition.Chain, now time.Time) time.Duration {
	e := c.Queue[0]
	if len(s.of) == 0 || e.Parked != nil {
		return 0
	}
	b := s.of[sourceOf(e)]
	if b == nil || b.why == "" {
		return 0
	}
	if wait, _ := b.Closed(now); wait > 0 {
		return wait
	}
	if b.probe == nil {
		last := s.lastOf(sourceOf(e), c)
		b.probe = last.Queue[0]
		s.schedule.Hasten(last, now)
	}
	if b.probe == e {
		return 0
	}
	return tryAgain
}

// lastOf is the chain of a source whose head came last, c or one that waits or is ready.
func (s *sources) lastOf(from source, c *partition.Chain) *partition.Chain {
	for _, o := range s.schedule.All() {
		if o.Partition.Lost || len(o.Queue) == 0 {
			continue
		}
		e := o.Queue[0]
		if !e.Done && e.Parked == nil && e.Nth > c.Queue[0].Nth && sourceOf(e) == from {
			c = o
		}
	}
	return c
}

// Forget what was counted in a partition that is not ours any more.
func (s *sources) Forget(partition string) {
	for from := range s.of {
		if from.partition == partition {
			delete(s.of, from)
		}
	}
}

// Stopped says which sources are not taken, and why.
func (s *sources) Stopped() (out []string) {
	for from, b := range s.of {
		if b.why != "" {
			out = append(out, fmt.Sprintf("source %.200q in partition %s: %s", from.name,
				from.partition, b.why))
		}
	}
	slices.Sort(out)
	return out
}
