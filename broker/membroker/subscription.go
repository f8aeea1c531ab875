package membroker

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/skald-go/skald/broker"
)

// A Subscription is one member of a group. Kill and Expire, which no real broker has, are for tests.
type Subscription struct {
	group  *group
	name   string
	topics []*topic
	ready  chan struct{}
	resume resumes // nil: lanes begin where they are acknowledged

	// under the cluster's lock
	owned   []*cursor // by topic and lane
	turn    int       // whose turn it is, so that a deep lane does not starve the others
	paused  map[string]bool
	changes map[*cursor]*change // not yet told
	expired bool
	gone    error // what its calls answer since it left
}

// change is what happened to a lane since the last Receive: lost, then gained, each at most once.
type change struct{ lost, unclean, gained bool }

type resumes func(ctx context.Context, lanes []broker.Lane) (map[string]int64, error)

var _ broker.Subscription = (*Subscription)(nil)

// Ready has a value when something may have come.
func (s *Subscription) Ready() <-chan struct{} { return s.ready }

func (s *Subscription) wake() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// Receive returns what is there: first the changes of lanes, then messages, lanes taking turns.
func (s *Subscription) Receive(ctx context.Context, max int) (broker.Batch, error) {
	mu := s.lock()
	defer func() { mu() }()
	if s.expired && s.gone == nil {
		s.expired = false
		s.group.rejoin(s)
	}
	if s.gone != nil {
		return broker.Batch{}, s.gone
	}
	if gained := s.gained(); s.resume != nil && len(gained) > 0 {
		mu() // whoever is asked may need the broker
		at, err := s.resume(ctx, gained)
		mu = s.lock()
		if s.gone != nil || err != nil {
			return broker.Batch{}, cmp.Or(s.gone, err)
		}
		s.rewind(at)
	}
	b := s.tell()
	for range s.owned {
		c := s.owned[s.turn%len(s.owned)]
		if len(b.Deliveries) >= max {
			break
		}
		s.turn = (s.turn + 1) % len(s.owned)
		if !s.paused[c.lane.name] {
			b.Deliveries = c.take(b.Deliveries, max)
		}
	}
	if s.more() {
		s.wake()
	}
	return b, nil
}

// gained are the lanes that are to be told of as such.
func (s *Subscription) gained() (out []broker.Lane) {
	for _, c := range s.owned {
		if ch := s.changes[c]; ch != nil && ch.gained {
			out = append(out, s.lane(c))
		}
	}
	return out
}

func (s *Subscription) lane(c *cursor) broker.Lane {
	return broker.Lane{Name: c.lane.name, Clean: true, Origin: s.group.c.incarnation + "/" + c.topic.id, Start: c.acked, Started: true}
}

// rewind sets gained lanes back where messages are wanted that were acknowledged.
func (s *Subscription) rewind(to map[string]int64) {
	for _, c := range s.owned {
		at, wanted := to[c.lane.name]
		if ch := s.changes[c]; wanted && ch != nil && ch.gained {
			c.rewind(max(at, c.lane.base))
		}
	}
}

// rewind forgets acknowledgements from position to on.
func (c *cursor) rewind(to int64) {
	for p := to; p < c.acked; p++ {
		if c.tries == nil {
			c.tries = map[int64]int{}
		}
		c.tries[p]++
	}
	c.acked, c.next = min(c.acked, to), min(c.next, to)
}

// take appends c's messages up to max.
func (c *cursor) take(out []broker.Delivery, max int) []broker.Delivery {
	n := min(int64(max-len(out)), c.lane.end()-c.next)
	out = slices.Grow(out, int(n))
	for range n {
		d := broker.Delivery{Message: c.lane.log[c.next-c.lane.base], Lane: c.lane.name, Position: c.next}
		if len(c.tries) > 0 {
			d.Attempt = c.tries[c.next]
		}
		out = append(out, d)
		c.next++
	}
	return out
}

func (s *Subscription) more() bool {
	return slices.ContainsFunc(s.owned, func(c *cursor) bool {
		return c.next < c.lane.end() && !s.paused[c.lane.name]
	})
}

// tell empties what is to be told about lanes.
func (s *Subscription) tell() (b broker.Batch) {
	if len(s.changes) == 0 {
		return b
	}
	told := make([]*cursor, 0, len(s.changes))
	for c := range s.changes {
		told = append(told, c)
	}
	slices.SortFunc(told, byLane)
	for _, c := range told {
		ch := s.changes[c]
		if ch.lost {
			b.Lost = append(b.Lost, broker.Lane{Name: c.lane.name, Clean: !ch.unclean})
		}
		if ch.gained {
			b.Gained = append(b.Gained, s.lane(c))
		}
	}
	clear(s.changes)
	return b
}

// renew reads t in place of the topic that had its name before.
func (s *Subscription) renew(t *topic) bool {
	at := slices.IndexFunc(s.topics, func(old *topic) bool { return old.name == t.name && old != t })
	if at >= 0 {
		s.topics[at] = t
	}
	return at >= 0
}

func (s *Subscription) gain(c *cursor) {
	s.owned = append(s.owned, c)
	slices.SortFunc(s.owned, byLane)
	s.change(c).gained = true
	s.wake()
}

func (s *Subscription) lose(c *cursor, clean bool) {
	s.owned = slices.DeleteFunc(s.owned, func(o *cursor) bool { return o == c })
	delete(s.paused, c.lane.name)
	if ch := s.change(c); ch.gained { // never told of it: nothing to forget
		ch.gained = false
	} else {
		ch.lost, ch.unclean = true, !clean
	}
	s.wake()
}

func (s *Subscription) change(c *cursor) *change {
	ch := s.changes[c]
	if ch == nil {
		ch = &change{}
		s.changes[c] = ch
	}
	return ch
}

// Ack stores at once what of ds is in lanes that are still owned.
func (s *Subscription) Ack(_ context.Context, ds []broker.Delivery) error {
	mu := s.lock()
	defer mu()
	if s.gone != nil {
		return s.gone
	}
	for i := range ds {
		d := &ds[i]
		if i+1 < len(ds) && ds[i+1].Lane == d.Lane && ds[i+1].Position > d.Position {
			continue // the next one says it all
		}
		for _, c := range s.owned {
			if c.lane.name == d.Lane {
				c.ack(d.Position+1, s.group.c.opts.Retain)
			}
		}
	}
	return nil
}

// Pause stops deliveries from lanes until Resume, or until they are lost.
func (s *Subscription) Pause(lanes ...string) {
	mu := s.lock()
	defer mu()
	if s.paused == nil {
		s.paused = map[string]bool{}
	}
	for _, c := range s.owned {
		if slices.Contains(lanes, c.lane.name) {
			s.paused[c.lane.name] = true
		}
	}
}

// Resume lets deliveries flow again.
func (s *Subscription) Resume(lanes ...string) {
	mu := s.lock()
	defer mu()
	for _, l := range lanes {
		delete(s.paused, l)
	}
	s.wake()
}

// Close leaves the group; its lanes have new owners when it returns.
func (s *Subscription) Close(context.Context) error {
	mu := s.lock()
	defer mu()
	s.leave(true, broker.ErrClosed)
	return nil
}

// Kill is the sudden death of this member: its lanes move at once, what it did not acknowledge comes again to
// others, and its own calls answer an error that wraps broker.ErrClosed.
func (s *Subscription) Kill() {
	mu := s.lock()
	defer mu()
	s.leave(false, broker.ErrClosed)
}

// Expire is what a long pause does: the group believes this member dead and moves its lanes. Its next Receive
// tells of lanes lost uncleanly, and joins again.
func (s *Subscription) Expire() {
	mu := s.lock()
	defer mu()
	if s.gone == nil && !s.expired {
		s.expired = true
		s.group.drop(s, false)
		s.wake()
	}
}

func (s *Subscription) leave(clean bool, why error) {
	if s.gone == nil {
		s.end(why)
		s.group.drop(s, clean)
	}
}

func (s *Subscription) fence() {
	s.end(fmt.Errorf("member %q of group %q: %w: %w", s.name, s.group.name, errFenced, broker.ErrClosed))
}

// end makes all further calls answer why.
func (s *Subscription) end(why error) {
	s.gone = why
	s.wake()
}

func (s *Subscription) lock() (unlock func()) {
	s.group.c.mu.Lock()
	return s.group.c.mu.Unlock
}
