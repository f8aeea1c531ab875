package rabbitbroker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/feed"
	"github.com/skald-go/skald/internal/uuid7"
)

var errFenced = errors.New("another process with this member name took over")

// Subscription is one member of a group. The goroutine of run handles the connection and the group. Each
// owned partition has a goroutine that reads.
type Subscription struct {
	b     *Broker
	ctx   context.Context // ends with the member
	kill  context.CancelFunc
	leave chan context.Context // asks run once to leave the group, until that context ends
	ended chan *partition      // partitions whose channel is closed
	done  chan struct{}        // closed when run has ended

	group // used only by run

	mu    sync.Mutex
	feed  *feed.Feed[*partition]
	alarm string
	// flying is the number of unacknowledged bytes of all partitions.
	flying int
	left   error // the error of leaving the group
}

var _ broker.Subscription = (*Subscription)(nil)

func checkGroup(g broker.Group) error {
	if !feed.OK(g.Name) || len(g.Topics) == 0 || g.Member != "" && !feed.OK(g.Member) {
		return fmt.Errorf(
			"subscribe to %d topics as member %q of group %q: at least one topic; for groups and members: %w",
			len(g.Topics), g.Member, g.Name, errName)
	}
	return nil
}

// Subscribe joins g.
func (b *Broker) Subscribe(ctx context.Context, g broker.Group) (broker.Subscription, error) {
	if err := checkGroup(g); err != nil {
		return nil, err
	}
	b.mu.Lock()
	closed := b.closed
	b.mu.Unlock()
	if closed {
		return nil, fmt.Errorf("subscribe: %w", broker.ErrClosed)
	}
	s := &Subscription{
		b: b, leave: make(chan context.Context, 1), ended: make(chan *partition),
		done: make(chan struct{}),
		group: group{name: g.Name, sessionID: uuid7.New(time.Now()),
			topicNames: slices.Compact(slices.Sorted(slices.Values(g.Topics))), peers: map[string]peer{},
			shares: map[string]share{}, prefetch: map[string]int{}, windows: map[string]int{},
			refused: map[string]refusal{}},
	}
	s.ownerClaim = feed.Claim{SessionID: s.sessionID, Owner: g.Owner}
	s.member = "m-" + g.Member // random names have another form
	if g.Member == "" {
		s.member = "r-" + s.sessionID
	}
	s.feed = feed.New[*partition](&s.mu)
	s.ctx, s.kill = context.WithCancel(context.Background())
	l, err := s.join(ctx)
	if err != nil {
		s.kill()
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		s.kill()
		l.cut()
		return nil, fmt.Errorf("subscribe: %w", broker.ErrClosed)
	}
	b.subs[s] = true
	go s.run(l)
	return s, nil
}

// Ready returns a channel that receives a value after changes and new messages.
func (s *Subscription) Ready() <-chan struct{} { return s.feed.Ready() }

// Receive returns messages that have arrived.
func (s *Subscription) Receive(_ context.Context, max int) (broker.Batch, error) {
	return s.feed.Receive(max)
}

// Ack acknowledges the deliveries of ds from partitions that are still owned.
func (s *Subscription) Ack(_ context.Context, ds []broker.Delivery) error {
	s.mu.Lock()
	acked, err := s.feed.Ack(ds)
	upTo := make([]int64, len(acked))
	for i, l := range acked {
		upTo[i] = l.Acked
		s.flying -= l.removeUpTo(l.Acked - l.base)
	}
	s.mu.Unlock()
	for i, l := range acked {
		l.ack(uint64(upTo[i] - l.base))
	}
	return err
}

// Pause stops deliveries from partitions until Resume, or until they are lost.
func (s *Subscription) Pause(partitions ...string) { s.feed.Pause(partitions...) }

// Resume ends a pause.
func (s *Subscription) Resume(partitions ...string) { s.feed.Resume(partitions...) }

// Close sends the remaining acknowledgements, releases the partitions and leaves the group.
func (s *Subscription) Close(ctx context.Context) error {
	s.b.mu.Lock()
	delete(s.b.subs, s)
	s.b.mu.Unlock()
	return s.end(ctx)
}

// end makes run leave the group. When ctx ends, it ends run without waiting for RabbitMQ.
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

// lose drops a partition and its buffered messages.
func (s *Subscription) lose(l *partition, clean bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.feed.Lose(l, clean) {
		s.flying -= l.bytes
	}
}

// die drops all partitions. Later calls of Receive return the error cause.
func (s *Subscription) die(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.feed.End(cause)
	s.feed.Clear()
	s.flying = 0
}

// reportFault reports err to the next Receive, unless err is an outage.
func (s *Subscription) reportFault(err error) {
	if !errors.Is(err, broker.ErrUnavailable) && !errors.Is(err, broker.ErrClosed) {
		s.feed.Fail(err)
	}
}
