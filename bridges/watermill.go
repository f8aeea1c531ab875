package bridges

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wm "github.com/ThreeDotsLabs/watermill/message"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
)

// A WatermillPublisher is a Watermill publisher on a broker, which stays the caller's.
type WatermillPublisher struct {
	to     broker.Publisher
	key    func(*wm.Message) []byte
	calls  sync.RWMutex // for reading: a call is under way
	closed atomic.Bool
}

var _ wm.Publisher = (*WatermillPublisher)(nil)

// NewWatermillPublisher publishes to b. key says what a message keeps its order with; nil: none does.
func NewWatermillPublisher(b broker.Publisher, key func(*wm.Message) []byte) *WatermillPublisher {
	if key == nil {
		key = func(*wm.Message) []byte { return nil }
	}
	return &WatermillPublisher{to: b, key: key}
}

// Publish returns when all of msgs are durable. It ends with the context of the first. It may be called from
// many goroutines; so a failure is told when all their calls are answered, for whoever tries again sooner is
// held back.
func (p *WatermillPublisher) Publish(topic string, msgs ...*wm.Message) error {
	if p.closed.Load() {
		return broker.ErrClosed
	}
	if len(msgs) == 0 {
		return nil
	}
	out := make([]skald.Message, len(msgs))
	for i, m := range msgs {
		id := m.UUID
		if id == "" {
			id = watermill.NewUUID()
		}
		out[i] = message(topic, id, "watermill", p.key(m), m.Metadata, m.Payload)
	}
	err := p.call(msgs[0].Context(), out)
	if err != nil {
		p.calls.Lock()
		defer p.calls.Unlock()
	}
	return err
}

func (p *WatermillPublisher) call(ctx context.Context, msgs []skald.Message) error {
	p.calls.RLock()
	defer p.calls.RUnlock()
	return p.to.Publish(ctx, msgs).Wait(ctx)
}

// Close ends publishing.
func (p *WatermillPublisher) Close() error {
	p.closed.Store(true)
	return nil
}

// A Source is what a WatermillSubscriber needs of a broker.
type Source interface {
	broker.Subscriber
	broker.TopicMaker
}

// A WatermillSubscriber is a Watermill subscriber on a broker, which stays the caller's. Each of its
// subscriptions has one message in hand at a time.
type WatermillSubscriber struct {
	from       Source
	group      string
	partitions int
	log        watermill.LoggerAdapter

	closing chan struct{}
	wg      sync.WaitGroup
	mu      sync.Mutex
	closed  bool
	err     error
}

var (
	_ wm.Subscriber           = (*WatermillSubscriber)(nil)
	_ wm.SubscribeInitializer = (*WatermillSubscriber)(nil)
)

// NewWatermillSubscriber subscribes as a member of group. Topics that it makes get that many partitions.
func NewWatermillSubscriber(b Source, group string, partitions int,
	log watermill.LoggerAdapter) *WatermillSubscriber {
	if log == nil {
		log = watermill.NopLogger{}
	}
	return &WatermillSubscriber{from: b, group: group, partitions: partitions, log: log,
		closing: make(chan struct{})}
}

// SubscribeInitialize makes topic if it does not exist, and has the group begin there: on a broker that
// cannot rewind it would not see what is published before it joins.
func (s *WatermillSubscriber) SubscribeInitialize(topic string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.from.MakeTopics(ctx, s.partitions, topic); err != nil {
		return err
	}
	sub, err := s.from.Subscribe(ctx, broker.Group{Name: s.group, Topics: []string{topic}})
	if err != nil {
		return fmt.Errorf("subscribe to %s: %w", topic, err)
	}
	return sub.Close(ctx)
}

// Subscribe joins the group; the channel is closed when ctx ends or s is closed.
func (s *WatermillSubscriber) Subscribe(ctx context.Context, topic string) (<-chan *wm.Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, broker.ErrClosed
	}
	sub, err := s.from.Subscribe(ctx, broker.Group{Name: s.group, Topics: []string{topic}})
	if err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", topic, err)
	}
	out := make(chan *wm.Message)
	s.wg.Go(func() {
		defer close(out)
		h := &hand{s: s, sub: sub, out: out}
		h.run(ctx)
		leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
		defer cancel()
		if err := sub.Close(leave); err != nil {
			s.failed(fmt.Errorf("leave group %s of %s: %w", s.group, topic, err))
		}
	})
	return out, nil
}

func (s *WatermillSubscriber) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = errors.Join(s.err, err)
}

// Close ends all subscriptions and waits until they have left the group.
func (s *WatermillSubscriber) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	s.mu.Unlock()
	s.wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.err
	s.err = nil
	return err
}

// A hand gives out the deliveries of one subscription, one at a time.
type hand struct {
	s     *WatermillSubscriber
	sub   broker.Subscription
	out   chan<- *wm.Message
	queue []broker.Delivery // what is to be given out
	done  []broker.Delivery // what is to be acknowledged
	given string            // the partition of what is in hand; empty: none, or it was lost
}

func (h *hand) run(ctx context.Context) {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for h.receive(ctx) == nil {
		if len(h.queue) > 0 {
			if !h.give(ctx, tick.C) {
				return
			}
			continue
		}
		select {
		case <-h.sub.Ready():
		case <-tick.C: // an acknowledgement that failed is repeated
		case <-h.s.closing:
			return
		case <-ctx.Done():
			return
		}
	}
}

// receive acknowledges what is finished, forgets what was lost, and fetches more if nothing is left. Its
// error says that the subscription is over.
func (h *hand) receive(ctx context.Context) error {
	if len(h.done) > 0 {
		if err := h.sub.Ack(ctx, h.done); err != nil {
			return h.outage("acknowledge", err)
		}
		h.done = nil
	}
	most := 0
	if len(h.queue) == 0 {
		most = 100
	}
	b, err := h.sub.Receive(ctx, most)
	if err != nil {
		return h.outage("receive", err)
	}
	for _, l := range b.Lost {
		h.queue = slices.DeleteFunc(h.queue, func(d broker.Delivery) bool { return d.Partition == l.Name })
		if h.given == l.Name {
			h.given = ""
		}
	}
	h.queue = append(h.queue, b.Deliveries...)
	return nil
}

// outage is nil for what waiting may cure.
func (h *hand) outage(act string, err error) error {
	if errors.Is(err, broker.ErrClosed) {
		return err
	}
	h.s.log.Error(act, err, watermill.LogFields{"group": h.s.group})
	return nil
}

// give hands out the first of the queue, and again if it is refused, until it is acknowledged or its
// partition was lost. False: the subscription is over.
func (h *hand) give(ctx context.Context, tick <-chan time.Time) bool {
	d := h.queue[0]
	h.queue, h.given = h.queue[1:], d.Partition
	defer func() { h.given = "" }()
	for h.given != "" {
		switch acked, ok := h.once(ctx, &d, tick); {
		case !ok:
			return false
		case acked:
			h.done = append(h.done, d)
			return true
		}
	}
	return true
}

// once hands d out as a message of its own, and waits for the answer.
func (h *hand) once(ctx context.Context, d *broker.Delivery, tick <-chan time.Time) (acked, ok bool) {
	m := wm.NewMessage(d.ID, d.Data)
	if md := metadata(d); md != nil {
		m.Metadata = md
	}
	own, cancel := context.WithCancel(ctx)
	defer cancel()
	m.SetContext(own)
	for out := h.out; ; {
		select {
		case out <- m:
			out = nil // from here on it is in somebody's hand
		case <-m.Acked():
			return true, true
		case <-m.Nacked():
			return false, true
		case <-tick:
			if h.receive(ctx) != nil {
				return false, false
			}
			if out != nil && h.given == "" {
				return false, true
			}
		case <-h.s.closing:
			return false, false
		case <-ctx.Done():
			return false, false
		}
	}
}
