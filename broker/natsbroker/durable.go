// This file subscribes to consumers that already exist in JetStream (Shape.Durable).

package natsbroker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/feed"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/internal/column"
)

// durable is a subscription to existing consumers, one for each topic. Other clients may use the same
// consumers. The server delivers each message to one client. The subscription acknowledges each message
// separately, and until then reports progress to the server, so that the server does not deliver the message
// again.
type durable struct {
	b    *Broker
	ctx  context.Context
	kill context.CancelFunc
	wg   sync.WaitGroup

	mu   sync.Mutex
	feed *feed.Feed[*share]
}

// share is the part of a consumer's messages that the server delivered to this subscription.
type share struct {
	feed.Holding
	consumer string
	topic    topic

	// Only the goroutine of read uses the fields below.
	from   jetstream.Consumer
	looked time.Time     // when the consumer was last read
	wait   time.Duration // ack_wait of the consumer at the start

	// The fields below are guarded by the subscription's lock.
	held []*held // unacknowledged messages, in order
	told int     // the first told messages of held are delivered to the caller
	last int64   // the position of the last message
	room chan struct{}
}

func (l *share) Len() int { return len(l.held) - l.told }

// bytes returns the approximate memory of the unacknowledged messages.
func (l *share) bytes() (n int) {
	for _, h := range l.held {
		n += h.weight
	}
	return n
}

func (l *share) Take(out []broker.Delivery, n int) []broker.Delivery {
	for _, h := range l.held[l.told : l.told+n] {
		out = append(out, h.d)
	}
	l.told += n
	return out
}

// held is a message that the server delivered and that is not acknowledged.
type held struct {
	d      broker.Delivery
	m      jetstream.Msg
	weight int  // approximate bytes of memory
	done   bool // the caller acknowledged it, but the acknowledgement could not be sent yet
}

var _ broker.Subscription = (*durable)(nil)

// durables returns the number of topics with Shape.Durable.
func durables(topics []topic) (n int) {
	for _, t := range topics {
		if t.shape != nil && t.shape.Durable {
			n++
		}
	}
	return n
}

// subscribeDurable subscribes g to the consumers with its name.
func (b *Broker) subscribeDurable(ctx context.Context, g broker.Group,
	topics []topic) (broker.Subscription, error) {
	s := &durable{b: b}
	s.feed = feed.New[*share](&s.mu)
	var partitions []*share
	for _, t := range topics {
		told := broker.Partition{Name: t.name + "/" + g.Name, Shared: true}
		l := &share{Holding: feed.Holding{Partition: told, Topic: t.name}, topic: t, consumer: g.Name,
			room: make(chan struct{}, 1)}
		if err := b.lookShare(ctx, l); err != nil {
			return nil, fmt.Errorf("subscribe: %w", err)
		}
		partitions = append(partitions, l)
	}
	s.ctx, s.kill = context.WithCancel(context.Background())
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		s.kill()
		return nil, fmt.Errorf("subscribe: %w", broker.ErrClosed)
	}
	b.subs[s] = true
	s.mu.Lock()
	s.feed.Gain(partitions...)
	s.mu.Unlock()
	for _, l := range partitions {
		s.wg.Go(func() { s.read(l) })
		s.wg.Go(func() { s.work(l) })
	}
	return s, nil
}

// lookShare reads the settings of the consumer, and returns an error if they lose messages.
func (b *Broker) lookShare(ctx context.Context, l *share) error {
	c, err := b.js.Consumer(ctx, l.topic.stream, l.consumer)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound), errors.Is(err, jetstream.ErrConsumerNotFound),
		errors.Is(err, jetstream.ErrConsumerDoesNotExist), errors.Is(err, jetstream.ErrInvalidConsumerName):
		return fmt.Errorf("topic %q: stream %s has no consumer %q: %w", l.topic.name, l.topic.stream,
			l.consumer, broker.ErrNoTopic)
	case errors.Is(err, jetstream.ErrNotPullConsumer):
		return fmt.Errorf(
			"topic %q: consumer %q has a deliver_subject, so it is a push consumer: create a pull consumer: %w",
			l.topic.name, l.consumer, errUnsafe)
	case err != nil:
		return fmt.Errorf("topic %q: read consumer %q: %w", l.topic.name, l.consumer, b.orUnavailable(err))
	}
	config := c.CachedInfo().Config
	if bad := ofConsumer(&config); bad != "" {
		return fmt.Errorf("topic %q: consumer %q has %s: %w", l.topic.name, l.consumer, bad,
			errUnsafe)
	}
	l.from, l.looked, l.wait = c, time.Now(), cmp.Or(l.wait, config.AckWait)
	return nil
}

func (s *durable) Ready() <-chan struct{} { return s.feed.Ready() }

func (s *durable) lookAgain() {} // each fetch reads the consumer

// Receive returns messages that have arrived.
func (s *durable) Receive(_ context.Context, max int) (broker.Batch, error) {
	return s.feed.Receive(max)
}

// Ack acknowledges each message up to those in ds. If the server does not receive an acknowledgement, it
// delivers the message again.
func (s *durable) Ack(_ context.Context, ds []broker.Delivery) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	moved, err := s.feed.Ack(ds)
	for _, l := range moved {
		for _, h := range l.held[:l.told] {
			h.done = h.done || h.d.Position <= l.Acked
		}
		l.settle()
	}
	return err
}

// settle sends the acknowledgements that could not be sent before. The caller holds the lock.
func (l *share) settle() {
	n := len(l.held)
	l.held = slices.DeleteFunc(l.held, func(h *held) bool { return h.done && h.m.Ack() == nil })
	l.told -= n - len(l.held)
	feed.Signal(l.room)
}

// Alarm returns "", because NATS does not report that it accepts no messages.
func (*durable) Alarm() string { return "" }

// Pause stops deliveries from partitions.
func (s *durable) Pause(partitions ...string) { s.feed.Pause(partitions...) }

// Resume ends a pause.
func (s *durable) Resume(partitions ...string) { s.feed.Resume(partitions...) }

// Close sends the remaining acknowledgements. It also tells the server to deliver the other messages again
// immediately.
func (s *durable) Close(ctx context.Context) error {
	s.b.mu.Lock()
	delete(s.b.subs, s)
	s.b.mu.Unlock()
	return s.end(ctx)
}

func (s *durable) end(ctx context.Context) error {
	s.kill()
	s.wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.feed.End(broker.ErrClosed) {
		return nil
	}
	var errs []error
	for _, l := range s.feed.All() {
		l.settle()
		for _, h := range l.held {
			if h.done {
				errs = append(errs, h.m.Ack())
			} else {
				errs = append(errs, h.m.Nak())
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.b.opts.Session)
	defer cancel()
	if err := errors.Join(append(errs, s.b.nc.FlushWithContext(ctx))...); err != nil {
		return fmt.Errorf("return unfinished messages: %w", s.b.orUnavailable(err))
	}
	return nil
}

// work reports progress on the unacknowledged messages to the server, at intervals of a quarter of ack_wait.
func (s *durable) work(l *share) {
	tick := time.NewTicker(l.wait / 4)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
			s.mu.Lock()
			l.settle()
			for _, h := range l.held {
				_ = h.m.InProgress() // if this fails, the server may deliver the message again
			}
			s.mu.Unlock()
		}
	}
}

// read fetches messages while there is room for more, until the subscription ends.
func (s *durable) read(l *share) {
	for fails := 1; s.ctx.Err() == nil; {
		s.mu.Lock()
		room := s.b.opts.Prefetch - len(l.held)
		if l.bytes() >= aheadBytes/2/max(1, len(s.feed.All())) {
			room = 0
		}
		s.mu.Unlock()
		if room <= 0 {
			select {
			case <-l.room:
			case <-s.ctx.Done():
			}
			continue
		}
		err := s.fetch(l, room)
		if err == nil {
			fails = 1
			continue
		}
		if errors.Is(err, errUnsafe) || errors.Is(err, broker.ErrNoTopic) {
			s.feed.Fail(err)
		}
		select {
		case <-s.ctx.Done():
		case <-time.After(backoff.Soon(fails)):
		}
		fails++
	}
}

// fetch requests at most n messages. At intervals it also checks the settings of the consumer.
func (s *durable) fetch(l *share, n int) error {
	if l.from == nil || time.Since(l.looked) > s.b.opts.Session {
		ctx, cancel := context.WithTimeout(s.ctx, patience)
		defer cancel()
		if err := s.b.lookShare(ctx, l); err != nil {
			return err
		}
	}
	from := l.from
	l.from = nil // so that after an error the next call reads the consumer again
	ctx, cancel := context.WithTimeout(s.ctx, 5*time.Second)
	defer cancel()
	n = min(n, max(1, int(aheadBytes/max(1, s.b.nc.MaxPayload()))))
	batch, err := from.Fetch(n, jetstream.FetchContext(ctx))
	if err != nil {
		return err
	}
	for m := range batch.Messages() {
		if err := s.put(l, m); err != nil {
			return err
		}
	}
	if err := batch.Error(); err != nil && !errors.Is(err, context.DeadlineExceeded) && s.ctx.Err() == nil {
		return err
	}
	l.from = from
	return nil
}

func (s *durable) put(l *share, m jetstream.Msg) error {
	meta, err := m.Metadata()
	if err != nil {
		return err
	}
	msg, fault := decode(s.b.codec, l.topic.name, m.Headers(), m.Data(), meta.Sequence.Stream)
	if fault == nil {
		l.topic.routed(&msg, m.Subject())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l.last = max(l.last+1, int64(meta.Sequence.Consumer))
	l.held = append(l.held, &held{m: m, weight: column.Weight(&msg), d: broker.Delivery{
		Message: msg, Partition: l.Name, Position: l.last, Attempt: int(meta.NumDelivered) - 1, Fault: fault,
	}})
	s.feed.Wake()
	return nil
}
