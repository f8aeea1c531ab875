package membroker

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/feed"
)

// Subscription is one member of a group. Kill and Expire are for tests.
type Subscription struct {
	group  *group
	name   string
	owner  string
	topics []*topic
	resume resumes // nil if partitions begin at the acknowledged position
	feed   *feed.Feed[*cursor]

	expired bool // Expire was called, and Receive was not; guarded by the lock of the cluster
}

type resumes func(ctx context.Context, partitions []broker.Partition) (broker.Resumed, error)

var _ broker.Subscription = (*Subscription)(nil)

// Ready returns a channel that receives a value when messages or changes of partitions may have arrived.
func (s *Subscription) Ready() <-chan struct{} { return s.feed.Ready() }

// Receive returns changes of partitions and messages that have arrived. It takes messages from the partitions
// in turn.
func (s *Subscription) Receive(ctx context.Context, max int) (broker.Batch, error) {
	mu := s.lock()
	defer func() { mu() }()
	if s.expired && s.feed.EndReason() == nil {
		s.expired = false
		s.group.rejoin(s)
	}
	if gained := s.gained(); s.feed.EndReason() == nil && s.resume != nil && len(gained) > 0 {
		mu() // unlock, because resume may call the broker
		told, err := s.resume(ctx, gained)
		mu = s.lock()
		if gone := s.feed.EndReason(); gone != nil || err != nil {
			return broker.Batch{}, cmp.Or(gone, err)
		}
		s.begin(told)
	}
	return s.feed.Next(max)
}

// gained returns the partitions that Receive has not yet reported as gained.
func (s *Subscription) gained() (out []broker.Partition) {
	for _, c := range s.feed.Untold() {
		told := c.Partition
		told.Clean = true
		out = append(out, told)
	}
	return out
}

// begin moves the gained partitions to their first positions, by the rule of feed.Facts.
func (s *Subscription) begin(told broker.Resumed) {
	known := s.group.hasAcked()
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

// begin sets the next position of c. It acknowledges all messages before that position, and none after it.
func (c *cursor) begin(to int64) {
	for p := to; p < c.acked; p++ {
		if c.tries == nil {
			c.tries = map[int64]int{}
		}
		c.tries[p]++
	}
	c.acked, c.next = to, to
}

// Len returns the number of messages that the owner has not received.
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

// renew replaces the earlier topic with the name of t. It returns false if s does not read such a topic.
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

// Ack acknowledges ds immediately. It ignores deliveries of partitions that the member has lost.
func (s *Subscription) Ack(_ context.Context, ds []broker.Delivery) error {
	mu := s.lock()
	defer mu()
	if gone := s.feed.EndReason(); gone != nil {
		return gone
	}
	for i := range ds {
		d := &ds[i]
		if i+1 < len(ds) && ds[i+1].Partition == d.Partition && ds[i+1].Position > d.Position {
			continue // the next delivery acknowledges this one too
		}
		if c, owned := s.feed.Find(d.Partition); owned {
			c.ack(d.Position+1, s.group.c.opts.Retain)
		}
	}
	return nil
}

// Alarm returns "", because this broker always accepts messages.
func (*Subscription) Alarm() string { return "" }

// Pause stops deliveries from partitions until Resume, or until they are lost.
func (s *Subscription) Pause(partitions ...string) { s.feed.Pause(partitions...) }

// Resume restarts deliveries from partitions.
func (s *Subscription) Resume(partitions ...string) { s.feed.Resume(partitions...) }

// Close leaves the group. The partitions have new owners when it returns.
func (s *Subscription) Close(context.Context) error {
	mu := s.lock()
	defer mu()
	s.leave(true, broker.ErrClosed)
	return nil
}

// Kill simulates a crash of this member. Its partitions move immediately, and other members receive its
// unacknowledged messages. Its calls return an error that wraps broker.ErrClosed.
func (s *Subscription) Kill() {
	mu := s.lock()
	defer mu()
	s.leave(false, broker.ErrClosed)
}

// Expire simulates a long pause of this member. The group moves its partitions to other members. The next
// Receive joins the group again, and reports the partitions as lost, with Clean false.
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
