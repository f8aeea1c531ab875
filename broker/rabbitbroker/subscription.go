package rabbitbroker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/uuid7"
)

var errFenced = errors.New("a new life of this member has taken over")

// A Subscription is one member of a group. One goroutine, run, does all that concerns the group; each lane that is
// registered for has one that reads.
type Subscription struct {
	b     *Broker
	ready chan struct{}
	ctx   context.Context // ends with the member
	kill  context.CancelFunc
	leave chan context.Context // once: go in peace, until that context ends
	ended chan *lane           // RabbitMQ has closed it
	done  chan struct{}        // run has ended

	group // of run alone

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

func checkGroup(g broker.Group) error {
	if !nameOK(g.Name) || len(g.Topics) == 0 || g.Member != "" && !nameOK(g.Member) {
		return fmt.Errorf("subscribe to %d topics as member %q of group %q: at least one topic; for groups and members: %w", len(g.Topics), g.Member, g.Name, errName)
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
		b: b, ready: make(chan struct{}, 1), leave: make(chan context.Context, 1), ended: make(chan *lane),
		done: make(chan struct{}), changes: map[string]*change{},
		group: group{name: g.Name, life: uuid7.New(time.Now()), topicNames: slices.Compact(slices.Sorted(slices.Values(g.Topics))), peers: map[string]peer{}, shares: map[string]share{}},
	}
	s.member = "m-" + g.Member // no name that is drawn is one that is given
	if g.Member == "" {
		s.member = "r-" + s.life
	}
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

// Ready has a value when something may have come.
func (s *Subscription) Ready() <-chan struct{} { return s.ready }

func (s *Subscription) wake() {
	select {
	case s.ready <- struct{}{}:
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
			b.Gained = append(b.Gained, broker.Lane{Name: name, Clean: true})
		}
	}
	clear(s.changes)
	return b
}

// Ack tells RabbitMQ what of ds was delivered from lanes that are still owned.
func (s *Subscription) Ack(_ context.Context, ds []broker.Delivery) error {
	s.mu.Lock()
	if s.gone != nil {
		s.mu.Unlock()
		return s.gone
	}
	var acked []*lane
	for i := range ds {
		d := &ds[i]
		if i+1 < len(ds) && ds[i+1].Lane == d.Lane && ds[i+1].Position > d.Position {
			continue // the next one says it all
		}
		l := s.find(d.Lane)
		if l == nil {
			continue
		}
		if upTo := min(d.Position, l.told); upTo > l.acked { // not what an earlier ownership delivered
			l.acked = upTo
			acked = append(acked, l)
		}
	}
	s.mu.Unlock()
	for _, l := range acked {
		_ = l.ch.Ack(uint64(l.acked-l.base), true) // where that fails, the lane is being lost, and comes again
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

// lose drops a lane, and what was read of it.
func (s *Subscription) lose(l *lane, clean bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.owned, l) {
		return
	}
	s.owned = slices.DeleteFunc(s.owned, func(o *lane) bool { return o == l })
	if c := s.changed(l.name); c.gained { // never told of it: nothing to forget
		c.gained = false
	} else {
		c.lost, c.unclean = true, !clean
	}
	s.wake()
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
	s.owned = nil
	s.wake()
}

func (s *Subscription) lanes() []*lane {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.owned)
}

// tellFault keeps what waiting does not cure for the next Receive.
func (s *Subscription) tellFault(err error) {
	if errors.Is(err, broker.ErrAway) || errors.Is(err, broker.ErrClosed) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = err
	s.wake()
}
