package bridges_test

import (
	"context"
	"sync"
	"testing"
	"time"

	wm "github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"
)

func TestWatermillReconnect(t *testing.T) {
	t.Parallel()
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			if k.server == nil {
				t.Skip("there is no server that could be killed")
			}
			client, restart := k.own(t)
			f := features()
			f.RestartServiceCommand = restart
			tests.TestReconnect(t, once(f), func(t *testing.T) (wm.Publisher, wm.Subscriber) {
				pub, sub := pair(client(t), "bridges")
				s := &settled{Publisher: pub, Subscriber: sub, answered: map[string]chan struct{}{}}
				return s, s
			})
		})
	}
}

// settled hands a message on when its publisher has heard that it is durable. TestReconnect compares what
// came with what was answered by then; but a message whose first answer the crash took away comes while it is
// sent again.
type settled struct {
	wm.Publisher
	wm.Subscriber

	mu       sync.Mutex
	answered map[string]chan struct{}
}

// reconnected is how many messages TestReconnect sends, and noted is how long it may take to note the last
// answer, which nobody else can see.
const (
	reconnected = 10_000
	noted       = 10 * time.Second
)

func (s *settled) Publish(topic string, msgs ...*wm.Message) error {
	err := s.Publisher.Publish(topic, msgs...)
	if err == nil {
		for _, m := range msgs {
			close(s.answer(m.UUID))
		}
	}
	return err
}

func (s *settled) answer(id string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answered[id] == nil {
		s.answered[id] = make(chan struct{})
	}
	return s.answered[id]
}

func (s *settled) SubscribeInitialize(topic string) error {
	return s.Subscriber.(wm.SubscribeInitializer).SubscribeInitialize(topic)
}

func (s *settled) Subscribe(ctx context.Context, topic string) (<-chan *wm.Message, error) {
	in, err := s.Subscriber.Subscribe(ctx, topic)
	if err != nil {
		return nil, err
	}
	out := make(chan *wm.Message)
	go func() {
		defer close(out)
		seen := map[string]bool{}
		for m := range in {
			select {
			case <-s.answer(m.UUID):
			case <-m.Context().Done():
				continue
			}
			if seen[m.UUID] = true; len(seen) == reconnected {
				<-time.After(noted)
			}
			select {
			case out <- m:
			case <-m.Context().Done():
			}
		}
	}()
	return out, nil
}

func (s *settled) Close() error {
	if err := s.Publisher.Close(); err != nil {
		return err
	}
	return s.Subscriber.Close()
}
