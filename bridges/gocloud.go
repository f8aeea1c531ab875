package bridges

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"gocloud.dev/gcerrors"
	"gocloud.dev/pubsub/driver"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/uuid7"
)

// A CloudTopic is a go-cloud topic on a broker, which stays the caller's. Its messages promise no order, as
// go-cloud's do not.
type CloudTopic struct {
	cloud
	to    broker.Publisher
	topic string
}

var _ driver.Topic = (*CloudTopic)(nil)

// NewCloudTopic publishes to topic of b, which is looked for when something is sent.
func NewCloudTopic(b broker.Publisher, topic string) *CloudTopic {
	return &CloudTopic{to: b, topic: topic}
}

// SendBatch returns when all of ms are durable.
func (t *CloudTopic) SendBatch(ctx context.Context, ms []*driver.Message) error {
	out := make([]skald.Message, len(ms))
	for i, m := range ms {
		out[i] = message(t.topic, uuid7.New(time.Now()), "gocloud", nil, m.Metadata, m.Body)
		if m.BeforeSend != nil {
			if err := m.BeforeSend(as(&out[i])); err != nil {
				return err
			}
		}
	}
	if err := t.to.Publish(ctx, out).Wait(ctx); err != nil {
		return err
	}
	for i, m := range ms {
		if m.AfterSend != nil {
			if err := m.AfterSend(as(&out[i])); err != nil {
				return err
			}
		}
	}
	return nil
}

// As gives a *broker.Publisher.
func (t *CloudTopic) As(i any) bool { return as(t.to)(i) }

// Close leaves the broker open.
func (t *CloudTopic) Close() error { return nil }

// A CloudSubscription is a go-cloud subscription on a broker, which stays the caller's.
type CloudSubscription struct {
	cloud
	from  broker.Subscriber
	group broker.Group

	mu         sync.Mutex
	sub        broker.Subscription // nil until something is received
	partitions map[string]*partition
	again      []*ticket // refused: to be handed out again
}

var _ driver.Subscription = (*CloudSubscription)(nil)

// NewCloudSubscription is a member of group once it receives; topic is looked for then.
func NewCloudSubscription(b broker.Subscriber, group, topic string) *CloudSubscription {
	return &CloudSubscription{from: b, group: broker.Group{Name: group, Topics: []string{topic}},
		partitions: map[string]*partition{}}
}

// partition is what was handed out of a partition and is not acknowledged at the broker, in its order.
type partition struct{ out []*ticket }

// A ticket is one delivery that was handed out; nil partition: it was lost, or is acknowledged.
type ticket struct {
	d         broker.Delivery
	partition *partition
	finished  bool
}

const nap = 500 * time.Millisecond // how long ReceiveBatch waits for the first message

// ReceiveBatch joins the group if it has not, and returns what has come.
func (s *CloudSubscription) ReceiveBatch(ctx context.Context, most int) ([]*driver.Message, error) {
	out, ready, err := s.take(ctx, most)
	if err != nil || len(out) > 0 {
		return out, err
	}
	select {
	case <-ready:
	case <-time.After(nap):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	out, _, err = s.take(ctx, most)
	return out, err
}

// Join becomes a member of the group: the first call to ReceiveBatch does it if nobody did. On a broker that
// cannot rewind a group that is new begins here.
func (s *CloudSubscription) Join(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.join(ctx)
}

func (s *CloudSubscription) join(ctx context.Context) error {
	if s.sub != nil {
		return nil
	}
	sub, err := s.from.Subscribe(ctx, s.group)
	if err != nil {
		return fmt.Errorf("subscribe to %s: %w", s.group.Topics[0], err)
	}
	s.sub = sub
	return nil
}

func (s *CloudSubscription) take(ctx context.Context,
	most int) (out []*driver.Message, ready <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.join(ctx); err != nil {
		return nil, nil, err
	}
	b, err := s.sub.Receive(ctx, max(0, most-len(s.again)))
	if err != nil {
		return nil, nil, err
	}
	for _, l := range b.Lost {
		s.forget(l.Name)
	}
	n := min(most, len(s.again))
	for _, t := range s.again[:n] {
		out = append(out, t.message())
	}
	s.again = slices.Delete(s.again, 0, n)
	for _, d := range b.Deliveries {
		out = append(out, s.hand(d).message())
	}
	return out, s.sub.Ready(), nil
}

func (s *CloudSubscription) forget(name string) {
	if l := s.partitions[name]; l != nil {
		for _, t := range l.out {
			t.partition = nil
		}
	}
	delete(s.partitions, name)
	s.again = slices.DeleteFunc(s.again, func(t *ticket) bool { return t.partition == nil })
}

func (s *CloudSubscription) hand(d broker.Delivery) *ticket {
	l := s.partitions[d.Partition]
	if l == nil {
		l = &partition{}
		s.partitions[d.Partition] = l
	}
	t := &ticket{d: d, partition: l}
	l.out = append(l.out, t)
	return t
}

func (t *ticket) message() *driver.Message {
	return &driver.Message{LoggableID: t.d.ID, Body: t.d.Data, Metadata: metadata(&t.d), AckID: t,
		AsFunc: as(&t.d)}
}

// SendAcks acknowledges, of each partition, what is finished without a gap.
func (s *CloudSubscription) SendAcks(ctx context.Context, ids []driver.AckID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var partitions []*partition
	for _, id := range ids {
		t := id.(*ticket)
		t.finished = true
		if t.partition != nil && !slices.Contains(partitions, t.partition) {
			partitions = append(partitions, t.partition)
		}
	}
	var done []broker.Delivery
	for _, l := range partitions {
		for _, t := range l.out[:l.prefix()] {
			done = append(done, t.d)
		}
	}
	if len(done) == 0 {
		return nil
	}
	if err := s.sub.Ack(ctx, done); err != nil {
		return err
	}
	for _, l := range partitions {
		n := l.prefix()
		for _, t := range l.out[:n] {
			t.partition = nil
		}
		l.out = slices.Delete(l.out, 0, n)
	}
	return nil
}

func (l *partition) prefix() (n int) {
	for n < len(l.out) && l.out[n].finished {
		n++
	}
	return n
}

// CanNack is true: the bridge hands out again what is refused, though no broker hears of it.
func (s *CloudSubscription) CanNack() bool { return true }

// SendNacks has messages handed out again to this subscription.
func (s *CloudSubscription) SendNacks(_ context.Context, ids []driver.AckID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if t := id.(*ticket); t.partition != nil && !t.finished && !slices.Contains(s.again, t) {
			s.again = append(s.again, t)
		}
	}
	return nil
}

// As gives a *broker.Subscriber.
func (s *CloudSubscription) As(i any) bool { return as(s.from)(i) }

// Close leaves the group.
func (s *CloudSubscription) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sub == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	return s.sub.Close(ctx)
}

// as hands v out by pointer to its type.
func as[T any](v T) func(any) bool {
	return func(i any) bool {
		p, ok := i.(*T)
		if ok {
			*p = v
		}
		return ok
	}
}

// cloud is how go-cloud understands errors of the seam.
type cloud struct{}

// IsRetryable is true for an outage.
func (cloud) IsRetryable(err error) bool { return errors.Is(err, broker.ErrUnavailable) }

// ErrorAs is errors.As.
func (cloud) ErrorAs(err error, i any) bool { return errors.As(err, i) }

// ErrorCode tells why.
func (cloud) ErrorCode(err error) gcerrors.ErrorCode {
	var refused *broker.PublishError
	switch {
	case errors.Is(err, context.Canceled):
		return gcerrors.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return gcerrors.DeadlineExceeded
	case errors.Is(err, broker.ErrNoTopic):
		return gcerrors.NotFound
	case errors.Is(err, broker.ErrClosed):
		return gcerrors.FailedPrecondition
	case errors.As(err, &refused) && len(refused.Refused) > 0:
		return gcerrors.InvalidArgument
	}
	return gcerrors.Unknown
}
