package membroker

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/feed"
)

// Subscription is one member of a group. Kill and Expire exist only for tests.
type Subscription struct {
	group  *group
	name   string
	owner  string
	topics []*topic
	resume resumes // nil: partitions begin at the acknowledged position
	feed   *feed.Feed[*cursor]

	expired bool // under the cluster's lock
}

type resumes func(ctx context.Context, partitions []broker.Partition) (broker.Resumed, error)

var _ broker.Subscription = (*Subscription)(nil)

// Ready receives a value when messages or changes of partitions may have arrived.
func (s *Subscription) Ready() <-chan struct{} { return s.feed.Ready() }

// Receive returns what has arrived: changes of partitions, then messages, from the partitions in turn.
func (s *Subscription) Receive(ctx context.Context, max int) (broker.Batch, error) {
	mu := s.lock()
	defer func() { mu() }()
	if s.expired && s.feed.EndReason() == nil {
		s.expired = false
		s.group.rejoin(s)
	}
	if gained := s.gained(); s.feed.EndReason() == nil && s.resume != nil && len(gained) > 0 {
		mu() // resume may call the broker
		told, err := s.resume(ctx, gained)
		mu = s.lock()
		if gone := s.feed.EndReason(); gone != nil || err != nil {
			return broker.Batch{}, cmp.Or(gone, err)
		}
		s.begin(told)
	}
	return s.feed.Next(max)
}

// gained returns the partitions that the subscription has not yet reported as gained.
func (s *Subscription) gained() (out []broker.Partition) {
	for _, c := range s.feed.Untold() {
		told := c.Partition
		told.Clean = true
		out = append(out, told)
	}
	return out
}

// begin moves newly gained partitions to their beginnings.
func (s *Subscription) begin(told broker.Resumed) {
	known := s.group.known()
	for _, c := range s.feed.Untold() {
		f := feed.FactsOf(true, told, c.Name)
		f.Group, f.Own, f.First, f.Oldest, f.End = known, true, c.first, c.partition.base, c.partition.end()
		if c.acked > c.first {
			f.Position = c.acked
		}
		at, again := f.Begin()
		if at < 0 {
			continue
		}
		c.begin(min(max(at, c.partition.base), c.partition.end()))
		c.Start, c.Redelivered = c.acked, again
	}
}

// begin makes position to the next one: it acknowledges everything before, and nothing after.
func (c *cursor) begin(to int64) {
	for p := to; p < c.acked; p++ {
		if c.tries == nil {
			c.tries = map[int64]int{}
		}
		c.tries[p]++
	}
	c.acked, c.next = to, to
}

// Len returns the number of messages that the group has not received.
func (c *cursor) Len() int { return int(c.partition.end() - c.next) }

// Take appends the next n deliveries to out.
func (c *cursor) Take(out []broker.Delivery, n int) []broker.Delivery {
	for range n {
		d := broker.Delivery{Message: c.partition.log[c.next-c.partition.base], Partition: c.Name,
			Position: c.next}
		if len(c.tries) > 0 {
			d.Attempt = c.tries[c.next]
		}
		out = append(out, d)
		c.next++
	}
	return out
}

// renew replaces the topic that had t's name before.
func (s *Subscription) renew(t *topic) bool {
	at := slices.IndexFunc(s.topics, func(old *topic) bool { return old.name == t.name && old != t })
	if at >= 0 {
		s.topics[at] = t
	}
	return at >= 0
}

func (s *Subscription) gain(c *cursor) {
	c.Partition = broker.Partition{Name: c.partition.name, Origin: s.group.c.incarnation + "/" + c.topic.id,
		Start: c.acked, Started: true}
	s.feed.Gain(c)
}

// Ack immediately acknowledges those of ds whose partitions are still owned.
func (s *Subscription) Ack(_ context.Context, ds []broker.Delivery) error {
	mu := s.lock()
	defer mu()
	if gone := s.feed.EndReason(); gone != nil {
		return gone
	}
	for i := range ds {
		d := &ds[i]
		if i+1 < len(ds) && ds[i+1].Partition == d.Partition && ds[i+1].Position > d.Position {
			continue // covered by the next one
		}
		if c, owned := s.feed.Find(d.Partition); owned {
			c.ack(d.Position+1, s.group.c.opts.Retain)
		}
	}
	return nil
}

// Alarm returns "".
func (*Subscription) Alarm() string { return "" }

// Pause stops deliveries from partitions until Resume, or until they are lost.
func (s *Subscription) Pause(partitions ...string) { s.feed.Pause(partitions...) }

// Resume restarts deliveries from partitions.
func (s *Subscription) Resume(partitions ...string) { s.feed.Resume(partitions...) }

// Close leaves the group. Its partitions have new owners when it returns.
func (s *Subscription) Close(context.Context) error {
	mu := s.lock()
	defer mu()
	s.leave(true, broker.ErrClosed)
	return nil
}

// Kill simulates a crash of this member: its partitions move immediately, its unacknowledged messages are
// redelivered to others, and its calls return an error that wraps broker.ErrClosed.
func (s *Subscription) Kill() {
	mu := s.lock()
	defer mu()
	s.leave(false, broker.ErrClosed)
}

// Expire simulates a long pause: the group considers this member dead and moves its partitions. The next
// Receive joins again, and reports the partitions as lost, not cleanly.
func (s *Subscription) Expire() {
	mu := s.lock()
	defer mu()
	if s.feed.EndReason() == nil && !s.expired {
		s.expired = true
		s.group.drop(s, false)
		s.feed.Wake()
	}
}

func (s *Subscription) leave(clean bool, why error) {
	if s.feed.End(why) {
		s.group.drop(s, clean)
	}
}

func (s *Subscription) fence() {
	s.feed.End(fmt.Errorf("member %q of group %q: %w: %w", s.name, s.group.name, errFenced, broker.ErrClosed))
}

func (s *Subscription) lock() (unlock func()) {
	s.group.c.mu.Lock()
	return s.group.c.mu.Unlock
}
