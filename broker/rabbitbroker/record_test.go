package rabbitbroker_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/rabbitbroker"
	"github.com/skald-go/skald/internal/need"
)

// TestPurgedRecord purges the record of one topic. A consumer is refused that topic, and can join without it.
func TestPurgedRecord(t *testing.T) {
	t.Parallel()
	at := need.RabbitMQ(t)
	name, ctl := vhost(t, at)
	b := open(t, at, &rabbitbroker.Options{VHost: name})
	g := broker.Group{Name: "g", Topics: []string{"a", "b"}}
	if err := b.MakeTopics(t.Context(), 1, g.Topics...); err != nil {
		t.Fatal(err)
	}
	ctl("purge_queue", rabbitbroker.Record("b"))
	var refused *broker.TopicError
	if _, err := b.Subscribe(t.Context(), g); !errors.As(err, &refused) || refused.Topic != "b" ||
		!errors.Is(err, rabbitbroker.ErrSettings) {
		t.Fatalf("subscribed: %v", err)
	}
	g.Topics = slices.DeleteFunc(g.Topics, func(topic string) bool { return topic == refused.Topic })
	s, err := b.Subscribe(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
