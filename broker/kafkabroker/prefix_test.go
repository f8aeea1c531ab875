package kafkabroker_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/kafkabroker"
)

// stops lets a test stop a franz-go client at one place.
type stops struct {
	partitioned func(*kgo.Record)

	once   sync.Once
	failed chan struct{} // the first record has
}

func (s *stops) OnProduceRecordPartitioned(r *kgo.Record, _ int32) { s.partitioned(r) }
func (s *stops) OnProduceRecordUnbuffered(_ *kgo.Record, err error) {
	if err != nil {
		s.once.Do(func() { close(s.failed) })
	}
}

func newStops() *stops {
	return &stops{partitioned: func(*kgo.Record) {}, failed: make(chan struct{})}
}

// keyed returns messages to topic. Each ID is a key followed by a number.
func keyed(topic string, ids ...string) (msgs []skald.Message) {
	for _, id := range ids {
		msgs = append(msgs, skald.Message{ID: id, Topic: topic, Key: []byte(id[:1])})
	}
	return msgs
}

func wantFailed(t *testing.T, err error, indexes ...int) {
	t.Helper()
	var pe *broker.PublishError
	if !errors.As(err, &pe) {
		t.Fatalf("got %v, want a *broker.PublishError", err)
	}
	if got := pe.Indexes(); !slices.Equal(got, indexes) {
		t.Fatalf("%v are not durable, want %v", got, indexes)
	}
}

// TestFailureWhileATopicIsTakenUp: franz-go hands over what it got for a topic that it does not know yet
// record by record, and sends the first meanwhile. When that fails before its successor is handed over, the
// successor does not go.
func TestFailureWhileATopicIsTakenUp(t *testing.T) {
	fake := newFake(t, kfake.NumBrokers(2))
	s := newStops()
	s.partitioned = func(r *kgo.Record) {
		if string(r.Key) != "x" {
			return
		}
		select { // its predecessor of the other key, which another broker has
		case <-s.failed:
		case <-time.After(5 * time.Minute):
			t.Error("nothing failed")
		}
	}
	b := open(t, fake.seeds, &kafkabroker.Options{
		Client:    []kgo.Opt{kgo.WithHooks(s)},
		Partition: func(_ string, key []byte, _ int) int { return strings.Index("ax", string(key)) },
	})
	must(t, b.MakeTopics(t.Context(), 2, "t"))
	must(t, fake.MoveTopicPartition("t", 0, 0))
	must(t, fake.MoveTopicPartition("t", 1, 1))
	fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.UnknownServerError})
	msgs := keyed("t", "a1", "x1", "a2")
	wantFailed(t, b.Publish(t.Context(), msgs).Wait(t.Context()), 0, 2)
}

// TestForgottenTopicLosesNothing: after a failure for which the driver no longer relies on what its clients
// know of the topic, what is published next is written, though it has the size of what was written before.
func TestForgottenTopicLosesNothing(t *testing.T) {
	fake := newFake(t)
	b := open(t, fake.seeds, nil)
	must(t, b.MakeTopics(t.Context(), 1, "t"))
	for i := range 4 { // both clients
		must(t, b.Publish(t.Context(), numbered(i, i+1)).Wait(t.Context()))
	}
	fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.MessageTooLarge})
	wantFailed(t, b.Publish(t.Context(), numbered(4, 5)).Wait(t.Context()), 0)
	for i := 4; i < 8; i++ {
		must(t, b.Publish(t.Context(), numbered(i, i+1)).Wait(t.Context()))
	}
	sub, err := b.Subscribe(t.Context(), broker.Group{Name: "g", Topics: []string{"t"}})
	must(t, err)
	for i, d := range take(t, sub, 8) {
		if want := numbered(i, i+1)[0].ID; d.ID != want {
			t.Errorf("message %d is %s, want %s", i, d.ID, want)
		}
	}
}
