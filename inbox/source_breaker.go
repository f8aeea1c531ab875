package inbox

import (
	"context"
	"fmt"
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

func (in *Inbox[TTx]) sourceOf(e *partition.Entry) source {
	if !e.Readable() {
		return source{partition: e.Partition} // nobody knows who sent it
	}
	return source{e.Source, e.Partition}
}

// tripSource counts a result for its source, where malformed messages came of it.
func (in *Inbox[TTx]) tripSource(ctx context.Context, r exec.Result, now time.Time) {
	if r.Entry.Parked != nil || in.o.Breaker.Off {
		return
	}
	s := in.sourceOf(r.Entry)
	b := in.apart[s]
	if b == nil && (r.Class != failure.Malformed || r.Print == "") {
		return
	}
	if b == nil {
		b = &breaker{o: in.o.Breaker}
		in.apart[s] = b
	}
	switch opened, closed := b.note(r, now); {
	case opened:
		in.o.Logger.ErrorContext(ctx, "inbox: malformed messages: what this source sends in this partition is not taken; others go on", "consumer", in.group,
			"source", s.name, "partition", s.partition, "why", b.why, "until", b.until)
	case closed:
		delete(in.apart, s)
		in.o.Logger.InfoContext(ctx, "inbox: a source is taken again: a message of it succeeded", "consumer", in.group, "source", s.name, "partition", s.partition)
	}
}

// held says for how long the head of c must wait because its source sends malformed messages. Once that has
// rested, the message that came last is tried: a producer that was repaired sends good ones behind the bad.
func (in *Inbox[TTx]) held(c *partition.Chain, now time.Time) time.Duration {
	e := c.Queue[0]
	if len(in.apart) == 0 || e.Parked != nil {
		return 0
	}
	b := in.apart[in.sourceOf(e)]
	if b == nil || b.why == "" {
		return 0
	}
	if wait, _ := b.closed(now); wait > 0 {
		return wait
	}
	if b.probe == nil {
		last := in.lastOf(in.sourceOf(e), c)
		b.probe = last.Queue[0]
		in.schedule.Hasten(last, now)
	}
	if b.probe == e {
		return 0
	}
	return tryAgain
}

// lastOf is the chain of a source whose head came last, c or one that waits or is ready.
func (in *Inbox[TTx]) lastOf(s source, c *partition.Chain) *partition.Chain {
	for _, o := range in.schedule.All() {
		if !o.Partition.Lost && len(o.Queue) > 0 && !o.Queue[0].Done && o.Queue[0].Parked == nil && in.sourceOf(o.Queue[0]) == s && o.Queue[0].Nth > c.Queue[0].Nth {
			c = o
		}
	}
	return c
}

// forget what was counted in a partition that is not ours any more.
func (in *Inbox[TTx]) forget(partition string) {
	for s := range in.apart {
		if s.partition == partition {
			delete(in.apart, s)
		}
	}
}

// stopped says which sources are not taken, and why.
func (in *Inbox[TTx]) stopped() (out []string) {
	for s, b := range in.apart {
		if b.why != "" {
			out = append(out, fmt.Sprintf("source %.200q in partition %s: %s", s.name, s.partition, b.why))
		}
	}
	slices.Sort(out)
	return out
}
