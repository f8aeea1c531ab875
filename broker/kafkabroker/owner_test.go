package kafkabroker_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/kafkabroker"
)

// TestGroupOfAnotherOwner: two services of one consumer name, on two databases or schemas, do not share a
// group: the second is refused by name, and the first has all messages.
func TestGroupOfAnotherOwner(t *testing.T) { bothKafkas(t, anotherOwner) }

func anotherOwner(t *testing.T, seeds string) {
	c := newChanging(t, seeds)
	b := c.open(t, kafkabroker.Options{})
	must(t, b.MakeTopics(t.Context(), 4, c.topic))
	group := broker.Group{Name: c.topic, Topics: []string{c.topic}, Owner: "a1"}
	first := subscribe(t, b, group)
	until(t, "its partitions", func() bool {
		got, err := first.Receive(t.Context(), 1)
		return err == nil && len(got.Gained) > 0
	})
	theirs := group
	theirs.Owner = "b2"
	if _, err := b.Subscribe(t.Context(), theirs); !errors.Is(err, broker.ErrOwner) ||
		!strings.Contains(err.Error(), c.topic) {
		t.Errorf("a member of another database: %v", err)
	}
	must(t, subscribe(t, b, group).Close(t.Context()))
	must(t, b.Publish(t.Context(), c.messages("k", 0, 40)).Wait(t.Context()))
	must(t, first.Ack(t.Context(), take(t, first, 40)))
	must(t, first.Close(t.Context()))
	if _, err := b.Subscribe(t.Context(), theirs); !errors.Is(err, broker.ErrOwner) {
		t.Errorf("another database, once the group has no members: %v", err)
	}
	second := subscribe(t, b, group)
	until(t, "its partitions", func() bool {
		got, err := second.Receive(t.Context(), 1)
		return err == nil && len(got.Gained) > 0
	})
	if err := b.Adopt(t.Context(), theirs, "a1"); err == nil || !strings.Contains(err.Error(), "has members") {
		t.Errorf("adopted a group that has members: %v", err)
	}
	must(t, second.Close(t.Context()))
	must(t, b.Adopt(t.Context(), theirs, "a1"))
	must(t, subscribe(t, b, theirs).Close(t.Context()))
}
