package membroker_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/membroker"
)

func TestKillReturnsWhatWasNotAcknowledged(t *testing.T) {
	b := ready(t, &membroker.Options{Partitions: 1}, "t")
	say(t, b, "k", 0, 3)
	one := join(t, b, "g", "")
	got := receive(t, one, 10)
	want(t, got, "0 1 2")
	ack(t, one, got.Deliveries[:1])
	two := join(t, b, "g", "")
	want(t, receive(t, two, 10), "")
	one.Kill()
	got = receive(t, two, 10)
	want(t, got, "1 2")
	if got.Deliveries[0].Attempt != 1 || len(got.Gained) != 1 {
		t.Fatalf("attempt %d, gained %v", got.Deliveries[0].Attempt, got.Gained)
	}
	if _, err := one.Receive(t.Context(), 1); !errors.Is(err, broker.ErrClosed) {
		t.Fatalf("a dead member received: %v", err)
	}
}

func TestExpiryIsReportedAsUncleanLossAndRejoins(t *testing.T) {
	b := ready(t, &membroker.Options{Partitions: 2}, "t")
	one := join(t, b, "g", "a")
	receive(t, one, 1)
	one.Expire()
	say(t, b, "k", 0, 2)
	if err := one.Ack(t.Context(), []broker.Delivery{{Partition: "t/0", Position: 9},
		{Partition: "t/1", Position: 9}}); err != nil {
		t.Fatal(err)
	}
	got := receive(t, one, 10)
	want(t, got, "0 1")
	if len(got.Lost) != 2 || got.Lost[0].Clean || len(got.Gained) != 2 {
		t.Fatalf("lost %v, gained %v", got.Lost, got.Gained)
	}
	one.Expire()
	join(t, b, "g", "a")
	if _, err := one.Receive(t.Context(), 1); !errors.Is(err, broker.ErrClosed) {
		t.Fatalf("two lives of one name: %v", err)
	}
}

func TestReusedNameKeepsOtherMembers(t *testing.T) {
	b := ready(t, nil, "t")
	a, c := join(t, b, "g", "a"), join(t, b, "g", "c")
	first, other := receive(t, a, 1), receive(t, c, 1)
	if len(first.Gained) != 2 || len(other.Gained) != 2 {
		t.Fatalf("gained %v and %v", first.Gained, other.Gained)
	}
	again := receive(t, join(t, b, "g", "a"), 1)
	if fmt.Sprint(again.Gained) != fmt.Sprint(first.Gained) {
		t.Fatalf("the new session has %v, the old had %v", again.Gained, first.Gained)
	}
	if still := receive(t, c, 1); len(still.Lost)+len(still.Gained) != 0 {
		t.Fatalf("the other member was disturbed: %+v", still)
	}
}

func TestRetainKeepsWhatIsNeeded(t *testing.T) {
	b := ready(t, &membroker.Options{Partitions: 1, Retain: 100}, "t")
	slow, fast := join(t, b, "slow", ""), join(t, b, "fast", "")
	say(t, b, "k", 0, 1000)
	ack(t, fast, receive(t, fast, 1000).Deliveries)
	got := receive(t, slow, 1000)
	if len(got.Deliveries) != 1000 {
		t.Fatalf("the slow group has %d of 1000", len(got.Deliveries))
	}
	ack(t, slow, got.Deliveries)
	if late := receive(t, join(t, b, "late", ""), 1000); len(late.Deliveries) != 100 ||
		late.Deliveries[0].ID != "900" {
		t.Fatalf("a late group has %d, first %s", len(late.Deliveries), late.Deliveries[0].ID)
	}
	say(t, b, "k", 1000, 1001)
	want(t, receive(t, fast, 9), "1000")
}

func TestDeepPartitionDoesNotStarveTheOthers(t *testing.T) {
	b := ready(t, &membroker.Options{Partitions: 1}, "deep", "flat")
	for _, topic := range []string{"deep", "flat"} {
		for range map[string]int{"deep": 100, "flat": 1}[topic] {
			if err := b.Publish(t.Context(),
				[]skald.Message{{ID: topic, Topic: topic}}).Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	sub, err := b.Subscribe(t.Context(), broker.Group{Name: "g", Topics: []string{"deep", "flat"}})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for range 2 {
		for _, d := range receive(t, sub.(*membroker.Subscription), 10).Deliveries {
			ids = append(ids, d.ID)
		}
	}
	if ids[10] != "flat" {
		t.Fatalf("got %v", ids)
	}
}

func TestCallerMayReuseItsBytes(t *testing.T) {
	b := ready(t, &membroker.Options{Partitions: 1}, "t")
	m := []skald.Message{{ID: "0", Topic: "t", Key: []byte("k"), Data: []byte("data"),
		Headers: []skald.Header{{Name: "n", Value: []byte("v")}}}}
	if err := b.Publish(t.Context(), m).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	m[0].Key[0], m[0].Data[0], m[0].Headers[0].Value[0], m[0].Headers[0].Name = 'x', 'x', 'x', "x"
	d := receive(t, join(t, b, "g", ""), 1).Deliveries[0]
	if got := fmt.Sprintf("%s %s %s %s", d.Key, d.Data, d.Headers[0].Name,
		d.Headers[0].Value); got != "k data n v" {
		t.Fatal(got)
	}
}

func BenchmarkPublishReceiveAck(bench *testing.B) {
	b := membroker.New(nil)
	if err := b.MakeTopics(bench.Context(), 0, "t"); err != nil {
		bench.Fatal(err)
	}
	s, err := b.Subscribe(bench.Context(), broker.Group{Name: "g", Topics: []string{"t"}})
	if err != nil {
		bench.Fatal(err)
	}
	msgs := make([]skald.Message, 100)
	for i := range msgs {
		msgs[i] = skald.Message{ID: "an-id", Topic: "t", Key: fmt.Append(nil, i), Data: make([]byte, 250)}
	}
	for n := 0; n < bench.N; n += len(msgs) {
		if err := b.Publish(bench.Context(), msgs).Wait(bench.Context()); err != nil {
			bench.Fatal(err)
		}
		got, err := s.Receive(bench.Context(), len(msgs))
		if err != nil {
			bench.Fatal(err)
		}
		if err := s.Ack(bench.Context(), got.Deliveries); err != nil {
			bench.Fatal(err)
		}
	}
}

func ready(t *testing.T, opts *membroker.Options, topics ...string) *membroker.Broker {
	t.Helper()
	b := membroker.New(opts)
	if err := b.MakeTopics(t.Context(), 0, topics...); err != nil {
		t.Fatal(err)
	}
	return b
}

func say(t *testing.T, b *membroker.Broker, key string, from, to int) {
	t.Helper()
	var msgs []skald.Message
	for i := from; i < to; i++ {
		msgs = append(msgs, skald.Message{ID: fmt.Sprint(i), Topic: "t", Key: []byte(key)})
	}
	if err := b.Publish(t.Context(), msgs).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func join(t *testing.T, b *membroker.Broker, group, member string) *membroker.Subscription {
	t.Helper()
	s, err := b.Subscribe(t.Context(), broker.Group{Name: group, Topics: []string{"t"}, Member: member})
	if err != nil {
		t.Fatal(err)
	}
	return s.(*membroker.Subscription)
}

func receive(t *testing.T, s *membroker.Subscription, most int) broker.Batch {
	t.Helper()
	b, err := s.Receive(t.Context(), most)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func ack(t *testing.T, s *membroker.Subscription, ds []broker.Delivery) {
	t.Helper()
	if err := s.Ack(t.Context(), ds); err != nil {
		t.Fatal(err)
	}
}

func want(t *testing.T, b broker.Batch, ids string) {
	t.Helper()
	got := ""
	for i, d := range b.Deliveries {
		if i > 0 {
			got += " "
		}
		got += d.ID
	}
	if got != ids {
		t.Fatalf("received %q, want %q", got, ids)
	}
}
