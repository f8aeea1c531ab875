package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nuid"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/feed"
	"github.com/skald-go/skald/broker/internal/perkey"
)

var errFenced = errors.New("another process with this member name took over")

// Subscription is one member of a group. Only the goroutine of run uses the bucket. Each owned partition has
// a goroutine that reads.
type Subscription struct {
	b     *Broker
	ctx   context.Context // ends with the member
	kill  context.CancelFunc
	leave chan context.Context // asks run once to leave the group, until that context ends
	again chan struct{}        // asks run to watch the bucket again
	done  chan struct{}        // closed when run has ended

	group   // used only by run
	resumes func(ctx context.Context, partitions []broker.Partition) (broker.Resumed, error)

	mu   sync.Mutex
	feed *feed.Feed[*partition]
	left error // the error of leaving the group
}

var _ broker.Subscription = (*Subscription)(nil)

// Subscribe joins g.
func (b *Broker) Subscribe(ctx context.Context, g broker.Group) (broker.Subscription, error) {
	if !feed.OK(g.Name) || len(g.Topics) == 0 || g.Member != "" && !feed.OK(g.Member) {
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
		t, err := b.lookSoon(ctx, name)
		if err != nil {
			if err = fmt.Errorf("subscribe: %w", err); kindOf(err) != perkey.Outage {
				err = &broker.TopicError{Topic: name, Err: err}
			}
			return nil, err
		}
		topics = append(topics, t)
	}
	switch n := durables(topics); n {
	case 0:
	case len(topics):
		return b.subscribeDurable(ctx, g, topics)
	default:
		return nil, fmt.Errorf(
			"subscribe as %q: some topics have durables and some do not: use one group for each kind",
			g.Name)
	}
	kv, err := b.bucket(ctx)
	if err == nil {
		err = b.belongs(ctx, kv, &g)
	}
	if err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	s := &Subscription{
		b: b, leave: make(chan context.Context, 1), again: make(chan struct{}, 1),
		done:  make(chan struct{}),
		group: newGroup(kv, g, topics, nuid.Next()), resumes: g.Resume,
	}
	s.feed = feed.New[*partition](&s.mu)
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
	go s.checkLoop()
	return s, nil
}

// Ready returns a channel that receives a value after changes and new messages.
func (s *Subscription) Ready() <-chan struct{} { return s.feed.Ready() }

// lookAgain makes run watch the bucket again, because changes may be lost while there is no connection.
func (s *Subscription) lookAgain() {
	select {
	case s.again <- struct{}{}:
	default:
	}
}

// Receive returns messages that have arrived.
func (s *Subscription) Receive(_ context.Context, max int) (broker.Batch, error) {
	return s.feed.Receive(max)
}

// Ack records acknowledgements. run stores them later.
func (s *Subscription) Ack(_ context.Context, ds []broker.Delivery) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.feed.Ack(ds)
	return err
}

// Alarm returns "", because NATS does not report that it accepts no messages.
func (*Subscription) Alarm() string { return "" }

// Pause stops deliveries from partitions until Resume, or until they are lost.
func (s *Subscription) Pause(partitions ...string) { s.feed.Pause(partitions...) }

// Resume ends a pause.
func (s *Subscription) Resume(partitions ...string) { s.feed.Resume(partitions...) }

// Close stores acknowledgements, releases the partitions and leaves the group.
func (s *Subscription) Close(ctx context.Context) error {
	s.b.mu.Lock()
	delete(s.b.subs, s)
	s.b.mu.Unlock()
	return s.end(ctx)
}

// end makes run leave the group. When ctx ends, it ends run without waiting for NATS.
func (s *Subscription) end(ctx context.Context) error {
	select {
	case s.leave <- ctx:
	default: // run is leaving already
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

// gain adds partitions to the owned ones, and starts to read them.
func (s *Subscription) gain(partitions []*partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.feed.Gain(partitions...)
	for _, l := range partitions {
		if l.missed.Count > 0 {
			s.feed.Miss(l.missed)
		}
		ctx, cancel := context.WithCancel(s.ctx)
		l.stop = cancel
		go s.read(ctx, l, l.row.Position+1) // an argument, because the row may change
	}
}

// lose drops a partition and its buffered messages. It returns the acknowledged position.
func (s *Subscription) lose(l *partition, clean bool) (acked uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.stop()
	s.feed.Lose(l, clean)
	return uint64(l.Acked)
}

// die drops all partitions. Later calls of Receive return the error cause.
func (s *Subscription) die(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.feed.End(cause)
	for _, l := range s.feed.All() {
		l.stop()
	}
	s.feed.Clear()
}

// partition is a partition that this member owns.
type partition struct {
	feed.Holding
	feed.Buffer
	topic topic
	key   string
	row   row
	rev   uint64
	stop  context.CancelFunc
	room  chan struct{} // signals room in the buffer

	// The fields below are guarded by the subscription's lock.
	missed broker.Missed // messages that were removed before the claim
	read   uint64        // the next position to read
	behind uint64        // the number of messages after the last one that was read
	stuck  uint64        // the value of read at the last check by checkLoop, or 0
}

// Take removes messages from the buffer, and signals that there is room.
func (l *partition) Take(out []broker.Delivery, n int) []broker.Delivery {
	defer feed.Signal(l.room)
	return l.Buffer.Take(out, n)
}
