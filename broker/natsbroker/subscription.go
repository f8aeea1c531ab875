package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/skald-go/skald/broker"
)

var errFenced = errors.New("a new life of this member has taken over")

// A Subscription is one member of a group. One goroutine, run, does all that concerns the bucket; each lane that is
// owned has one that reads.
type Subscription struct {
	b     *Broker
	ready chan struct{}
	ctx   context.Context // ends with the member
	kill  context.CancelFunc
	leave chan context.Context // once: go in peace, until that context ends
	again chan struct{}        // look at the whole group again
	done  chan struct{}        // run has ended

	group   // of run alone
	resumes func(ctx context.Context, lanes []broker.Lane) (map[string]int64, error)

	mu      sync.Mutex
	owned   []*lane
	turn    int // whose turn it is, so that a deep lane does not starve the others
	changes map[string]*change
	fault   error // to be told by the next Receive
	gone    error // what all calls answer since it left
	left    error // what kept it from leaving in peace
}

// change is what happened to a lane since the last Receive: lost, then gained, each at most once.
type change struct{ lost, unclean, gained bool }

var _ broker.Subscription = (*Subscription)(nil)

// Subscribe joins g.
func (b *Broker) Subscribe(ctx context.Context, g broker.Group) (broker.Subscription, error) {
	if !nameOK(g.Name) || len(g.Topics) == 0 || g.Member != "" && !nameOK(g.Member) {
		return nil, fmt.Errorf("subscribe to %d topics as member %q of group %q: at least one topic; for groups and members: %w", len(g.Topics), g.Member, g.Name, errName)
	}
	b.mu.Lock()
	closed := b.closed
	b.mu.Unlock()
	if closed {
		return nil, fmt.Errorf("subscribe: %w", broker.ErrClosed)
	}
	var topics []topic
	for _, name := range g.Topics {
		t, err := b.look(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("subscribe: %w", err)
		}
		topics = append(topics, t)
	}
	switch n := durables(topics); n {
	case 0:
	case len(topics):
		return b.subscribeDurable(ctx, g, topics)
	default:
		return nil, fmt.Errorf("subscribe as %q: some topics have durables and some have not: take a group for each kind", g.Name)
	}
	kv, err := b.bucket(ctx)
	if err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	s := &Subscription{
		b: b, ready: make(chan struct{}, 1), leave: make(chan context.Context, 1), again: make(chan struct{}, 1),
		done: make(chan struct{}), changes: map[string]*change{},
		group: newGroup(kv, g, topics, nuid.Next()), resumes: g.Resume,
	}
	s.ctx, s.kill = context.WithCancel(context.Background())
	if err := s.join(ctx); err != nil {
		s.kill()
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		s.kill()
		return nil, fmt.Errorf("subscribe: %w", broker.ErrClosed)
	}
	b.subs[s] = true
	go s.run()
	return s, nil
}

// Ready has a value when something may have come.
func (s *Subscription) Ready() <-chan struct{} { return s.ready }

func (s *Subscription) wake() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

func (s *Subscription) lookAgain() {
	select {
	case s.again <- struct{}{}:
	default:
	}
}

// Receive returns what is there: first the changes of lanes, then messages, lanes taking turns.
func (s *Subscription) Receive(_ context.Context, max int) (broker.Batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone != nil {
		return broker.Batch{}, s.gone
	}
	if err := s.fault; err != nil {
		s.fault = nil
		s.wake()
		return broker.Batch{}, err
	}
	b := s.tell()
	more := false
	for range s.owned {
		l := s.owned[s.turn%len(s.owned)]
		s.turn = (s.turn + 1) % len(s.owned)
		if !l.paused {
			b.Deliveries = l.take(b.Deliveries, max)
			more = more || len(l.buffer) > 0
		}
	}
	if more {
		s.wake()
	}
	return b, nil
}

// tell empties what is to be told about lanes.
func (s *Subscription) tell() (b broker.Batch) {
	for name, c := range s.changes {
		if c.lost {
			b.Lost = append(b.Lost, broker.Lane{Name: name, Clean: !c.unclean})
		}
		if c.gained {
			b.Gained = append(b.Gained, s.gainedLane(name))
		}
	}
	clear(s.changes)
	return b
}

// Ack notes what of ds was delivered from lanes that are still owned; run stores it.
func (s *Subscription) Ack(_ context.Context, ds []broker.Delivery) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone != nil {
		return s.gone
	}
	for i := range ds {
		d := &ds[i]
		if i+1 < len(ds) && ds[i+1].Lane == d.Lane && ds[i+1].Position > d.Position {
			continue // the next one says it all
		}
		if l := s.find(d.Lane); l != nil {
			l.acked = max(l.acked, min(uint64(d.Position), l.told)) // not what an earlier ownership delivered
		}
	}
	return nil
}

func (s *Subscription) find(name string) *lane {
	for _, l := range s.owned {
		if l.name == name {
			return l
		}
	}
	return nil
}

// Pause stops deliveries from lanes until Resume, or until they are lost.
func (s *Subscription) Pause(lanes ...string) { s.pause(true, lanes) }

// Resume lets deliveries flow again.
func (s *Subscription) Resume(lanes ...string) {
	s.pause(false, lanes)
	s.wake()
}

func (s *Subscription) pause(on bool, lanes []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range lanes {
		if l := s.find(name); l != nil {
			l.paused = on
		}
	}
}

// Close stores acknowledgements, hands the lanes over and leaves the group.
func (s *Subscription) Close(ctx context.Context) error {
	s.b.mu.Lock()
	delete(s.b.subs, s)
	s.b.mu.Unlock()
	return s.end(ctx)
}

// end makes run leave, until ctx ends.
func (s *Subscription) end(ctx context.Context) error {
	select {
	case s.leave <- ctx:
	default: // it is leaving
	}
	select {
	case <-s.done:
	case <-ctx.Done():
		s.kill()
		<-s.done
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left
}

// gain takes lanes into what is owned, and reads them.
func (s *Subscription) gain(lanes []*lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range lanes {
		s.owned = append(s.owned, l)
		s.changed(l.name).gained = true
		ctx, cancel := context.WithCancel(s.ctx)
		l.stop = cancel
		go s.read(ctx, l, l.row.Position+1) // its row may have changed when that begins
	}
	s.wake()
}

// lose drops a lane, and what was read of it; it reports how far the lane was finished.
func (s *Subscription) lose(l *lane, clean bool) (acked uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.stop()
	s.owned = slices.DeleteFunc(s.owned, func(o *lane) bool { return o == l })
	if c := s.changed(l.name); c.gained { // never told of it: nothing to forget
		c.gained = false
	} else {
		c.lost, c.unclean = true, !clean
	}
	s.wake()
	return l.acked
}

func (s *Subscription) changed(name string) *change {
	c := s.changes[name]
	if c == nil {
		c = &change{}
		s.changes[name] = c
	}
	return c
}

// die makes all further calls answer why.
func (s *Subscription) die(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone == nil {
		s.gone = why
	}
	for _, l := range s.owned {
		l.stop()
	}
	s.owned = nil
	s.wake()
}

// lane is one that this member owns, from one claim to one loss.
type lane struct {
	name  string
	topic topic
	index int
	key   string
	row   row
	rev   uint64
	stop  context.CancelFunc

	// under the subscription's lock
	buffer []broker.Delivery
	room   chan struct{} // has a value when there may be room in the buffer
	paused bool
	told   uint64 // the last position that was delivered
	acked  uint64
}

func (l *lane) take(out []broker.Delivery, max int) []broker.Delivery {
	n := min(max-len(out), len(l.buffer))
	if n <= 0 {
		return out
	}
	out = append(out, l.buffer[:n]...)
	l.told = uint64(l.buffer[n-1].Position)
	clear(l.buffer[:n])
	if n == len(l.buffer) {
		n, l.buffer = 0, l.buffer[:0] // its room is used again
	}
	l.buffer = l.buffer[n:]
	select {
	case l.room <- struct{}{}:
	default:
	}
	return out
}

// read follows a lane, from next on, until ctx ends.
func (s *Subscription) read(ctx context.Context, l *lane, next uint64) {
	for fails := 1; ctx.Err() == nil; fails++ {
		from := next
		err := s.follow(ctx, l, &next)
		if next > from {
			fails = 1
		}
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			s.mu.Lock()
			s.fault = fmt.Errorf("read lane %s: stream %s: %w", l.name, l.topic.stream, broker.ErrNoTopic)
			s.mu.Unlock()
			s.wake()
		}
		select {
		case <-ctx.Done():
		case <-time.After(backoff(fails)):
		}
	}
}

// follow reads from next on until there is an error. The consumer is one that the server forgets by itself, and that
// nats.go makes anew behind the last message where there is a gap.
func (s *Subscription) follow(ctx context.Context, l *lane, next *uint64) error {
	c, err := s.b.js.OrderedConsumer(ctx, l.topic.stream, jetstream.OrderedConsumerConfig{
		FilterSubjects: l.topic.reads(l.index), DeliverPolicy: jetstream.DeliverByStartSequencePolicy,
		OptStartSeq: *next, InactiveThreshold: 30 * time.Second,
	})
	if err != nil {
		return err
	}
	it, err := c.Messages(jetstream.PullMaxMessagesWithBytesLimit(s.b.opts.Prefetch, 4<<20), jetstream.PullExpiry(10*time.Second))
	if err != nil {
		return err
	}
	defer it.Stop()
	defer context.AfterFunc(ctx, it.Stop)()
	for {
		m, err := it.Next()
		if err != nil {
			return err
		}
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		msg, fault := decode(l.topic.name, m.Headers(), m.Data())
		d := broker.Delivery{Message: msg, Lane: l.name, Position: int64(meta.Sequence.Stream), Fault: fault}
		if !s.put(ctx, l, d) {
			return ctx.Err()
		}
		*next = meta.Sequence.Stream + 1
	}
}

// put waits for room, so that a slow member holds no more than it asked for.
func (s *Subscription) put(ctx context.Context, l *lane, d broker.Delivery) bool {
	for {
		s.mu.Lock()
		if ctx.Err() != nil {
			s.mu.Unlock()
			return false
		}
		if len(l.buffer) < s.b.opts.Prefetch {
			l.buffer = append(l.buffer, d)
			s.mu.Unlock()
			s.wake()
			return true
		}
		s.mu.Unlock()
		select {
		case <-l.room:
		case <-ctx.Done():
			return false
		}
	}
}
