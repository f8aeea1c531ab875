package kafkabroker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/internal/need"
)

// changing is a Kafka topic that a test changes while clients use it.
type changing struct {
	seeds, topic string
	adm          *kadm.Client
}

func newChanging(t *testing.T, seeds string) changing {
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(seeds, ",")...))
	must(t, err)
	t.Cleanup(cl.Close)
	c := changing{seeds, fmt.Sprintf("change.%x", time.Now().UnixNano()), kadm.NewClient(cl)}
	t.Cleanup(func() { _, _ = c.adm.DeleteTopics(context.WithoutCancel(t.Context()), c.topic) })
	return c
}

// open creates a client that refreshes its metadata often.
func (c changing) open(t *testing.T, o kafkabroker.Options) *kafkabroker.Broker {
	o.Client = append(o.Client, kgo.MetadataMaxAge(200*time.Millisecond))
	return open(t, c.seeds, &o)
}

func (c changing) messages(key string, from, to int) (out []skald.Message) {
	for i := from; i < to; i++ {
		out = append(out, skald.Message{ID: fmt.Sprintf("%s-%06d", key, i), Source: "s", Type: "t",
			Topic: c.topic, Key: []byte(key)})
	}
	return out
}

func bothKafkas(t *testing.T, test func(*testing.T, string)) {
	t.Run("fake", func(t *testing.T) { test(t, newFake(t).seeds) })
	t.Run("real", func(t *testing.T) { test(t, need.Kafka(t)) })
}

// subscribe joins g. It waits for the coordinator of groups, which Kafka creates for the first group of a
// cluster.
func subscribe(t *testing.T, b *kafkabroker.Broker, g broker.Group) (sub broker.Subscription) {
	t.Helper()
	var err error
	until(t, "the subscription", func() bool {
		if sub, err = b.Subscribe(t.Context(), g); err != nil && !errors.Is(err, broker.ErrUnavailable) {
			t.Fatal(err)
		}
		return err == nil
	})
	return sub
}

// TestTopicGrows from 4 to 8 partitions under load: nothing is lost, both members of the group get partitions
// of the new ones, within a partition a key keeps its order, and before and after the growth it does as a
// whole.
func TestTopicGrows(t *testing.T) { bothKafkas(t, topicGrows) }

func topicGrows(t *testing.T, seeds string) {
	c := newChanging(t, seeds)
	b := c.open(t, kafkabroker.Options{Start: "latest"})
	must(t, b.MakeTopics(t.Context(), 4, c.topic))
	var subs []broker.Subscription
	for range 2 {
		sub := subscribe(t, b, broker.Group{Name: c.topic, Topics: []string{c.topic}})
		subs = append(subs, sub)
	}
	const keys = 40
	seen, last, partitions := map[string]bool{}, map[string]string{}, map[string]bool{}
	receive := func() {
		for _, sub := range subs {
			got, err := sub.Receive(t.Context(), 500)
			must(t, err)
			for _, d := range got.Deliveries {
				at := d.Partition + " " + string(d.Key)
				if !seen[d.ID] && d.ID < last[at] {
					t.Fatalf("%s came by %s after %s", d.ID, d.Partition, last[at])
				}
				seen[d.ID], last[at], partitions[d.Partition] = true, d.ID, true
			}
			must(t, sub.Ack(t.Context(), got.Deliveries))
		}
	}
	publish := func(round int) {
		var msgs []skald.Message
		for k := range keys {
			msgs = append(msgs, c.messages(fmt.Sprint("key", k), round, round+1)...)
		}
		until(t, "a publish that is taken",
			func() bool { return b.Publish(t.Context(), msgs).Wait(t.Context()) == nil })
	}
	round := 0
	for ; round < 5; round++ {
		publish(round)
	}
	grown, err := c.adm.UpdatePartitions(t.Context(), 8, c.topic)
	must(t, err)
	must(t, grown.Error())
	until(t, "messages by new partitions", func() bool {
		publish(round)
		round++
		receive()
		return slices.ContainsFunc([]string{"4", "5", "6", "7"},
			func(p string) bool { return partitions[c.topic+"/"+p] })
	})
	until(t, "all messages", func() bool { receive(); return len(seen) == round*keys })
}

// TestTopicMadeAnewIsReadFromItsBeginning, by the same subscription, which is told that its partitions were
// lost.
func TestTopicMadeAnewIsReadFromItsBeginning(t *testing.T) { bothKafkas(t, madeAnew) }

func madeAnew(t *testing.T, seeds string) {
	c := newChanging(t, seeds)
	b := c.open(t, kafkabroker.Options{Start: "latest", Commit: time.Millisecond})
	must(t, b.MakeTopics(t.Context(), 2, c.topic, c.topic+".other"))
	t.Cleanup(func() { _, _ = c.adm.DeleteTopics(context.WithoutCancel(t.Context()), c.topic+".other") })
	sub := subscribe(t, b, broker.Group{Name: c.topic, Topics: []string{c.topic, c.topic + ".other"}})
	must(t, b.Publish(t.Context(), c.messages("k", 0, 10)).Wait(t.Context()))
	must(t, sub.Ack(t.Context(), take(t, sub, 10)))
	_, err := c.adm.DeleteTopics(t.Context(), c.topic)
	must(t, err)
	until(t, "the new topic", func() bool { return b.MakeTopics(t.Context(), 2, c.topic) == nil })
	until(t, "a publish",
		func() bool { return b.Publish(t.Context(), c.messages("k", 100, 130)).Wait(t.Context()) == nil })
	seen, lost, told := map[string]bool{}, false, false
	until(t, "the messages of the new topic", func() bool {
		got, err := sub.Receive(t.Context(), 100)
		told = told || errors.Is(err, broker.ErrNoTopic)
		lost = lost || len(got.Lost) > 0
		for _, d := range got.Deliveries {
			seen[d.ID] = true
		}
		must(t, sub.Ack(t.Context(), got.Deliveries))
		return len(seen) == 30
	})
	if !lost || !told {
		t.Errorf("partitions lost: %v, told of the deletion: %v", lost, told)
	}
	until(t, "the acknowledgements of the new topic", func() bool {
		got, err := c.adm.FetchOffsets(t.Context(), c.topic)
		at := int64(0)
		for _, p := range got[c.topic] {
			at += max(p.At, 0)
		}
		return err == nil && at == 30
	})
	other := c.messages("o", 0, 1)
	other[0].Topic += ".other"
	must(t, b.Publish(t.Context(), other).Wait(t.Context()))
	take(t, sub, 1)
}

// TestLateAcknowledgementsOfADeletedTopic say nothing about the new one, though partitions have the same
// names.
func TestLateAcknowledgementsOfADeletedTopic(t *testing.T) { bothKafkas(t, lateAcknowledgements) }

func lateAcknowledgements(t *testing.T, seeds string) {
	c := newChanging(t, seeds)
	b := c.open(t, kafkabroker.Options{Commit: time.Millisecond})
	must(t, b.MakeTopics(t.Context(), 1, c.topic))
	sub, err := b.Subscribe(t.Context(), broker.Group{Name: c.topic, Topics: []string{c.topic}})
	must(t, err)
	must(t, b.Publish(t.Context(), c.messages("k", 0, 50)).Wait(t.Context()))
	old := take(t, sub, 50)
	_, err = c.adm.DeleteTopics(t.Context(), c.topic)
	must(t, err)
	until(t, "the new topic", func() bool { return b.MakeTopics(t.Context(), 1, c.topic) == nil })
	until(t, "the new partition",
		func() bool { return sub.(*kafkabroker.Subscription).Regained(c.topic + "/0") })
	must(t, sub.Ack(t.Context(), old))
	if n := sub.(*kafkabroker.Subscription).Uncommitted(); n != 0 {
		t.Errorf("%d partitions have acknowledgements", n)
	}
	until(t, "a publish",
		func() bool { return b.Publish(t.Context(), c.messages("k", 100, 110)).Wait(t.Context()) == nil })
	must(t, sub.Close(t.Context()))
	again, err := b.Subscribe(t.Context(), broker.Group{Name: c.topic, Topics: []string{c.topic}})
	must(t, err)
	inOrder(t, again, c.topic+"/0", "k-000100", "k-000101", "k-000102", "k-000103", "k-000104", "k-000105",
		"k-000106", "k-000107", "k-000108", "k-000109")
}

// TestStart: a new group begins where it is told, one that has committed goes on there, and members that have
// nothing to commit skip nothing when they come back.
func TestStart(t *testing.T) { bothKafkas(t, start) }

func start(t *testing.T, seeds string) {
	c := newChanging(t, seeds)
	first := c.open(t, kafkabroker.Options{})
	must(t, first.MakeTopics(t.Context(), 1, c.topic))
	must(t, first.Publish(t.Context(), c.messages("k", 0, 3)).Wait(t.Context()))
	<-time.After(20 * time.Millisecond) // Kafka's clock has milliseconds
	between := time.Now().Add(-10 * time.Millisecond).Format(time.RFC3339Nano)
	must(t, first.Publish(t.Context(), c.messages("k", 3, 5)).Wait(t.Context()))
	for at, want := range map[string]string{"earliest": "k-000000", between: "k-000003",
		"latest": "k-000005"} {
		g := broker.Group{Name: c.topic + "." + want, Topics: []string{c.topic}}
		b := c.open(t, kafkabroker.Options{Start: at})
		for range 2 { // the first dies before it has read anything
			sub := subscribe(t, b, g)
			sub.(*kafkabroker.Subscription).Kill()
		}
		if at == "latest" {
			must(t, first.Publish(t.Context(), c.messages("k", 5, 6)).Wait(t.Context()))
		}
		sub := subscribe(t, b, g)
		if got := take(t, sub, 1)[0].ID; got != want {
			t.Errorf("from %s: %s, want %s", at, got, want)
		}
	}
}

// TestLatestOfATopicThatWasAwaited: a topic that came to be while the group waited for it is read from its
// beginning, alone and with another topic. What lay in the other one is skipped.
func TestLatestOfATopicThatWasAwaited(t *testing.T) { bothKafkas(t, awaited) }

func awaited(t *testing.T, seeds string) {
	c, old := newChanging(t, seeds), newChanging(t, seeds)
	b := c.open(t, kafkabroker.Options{Start: "latest"})
	must(t, b.MakeTopics(t.Context(), 1, old.topic))
	must(t, b.Publish(t.Context(), old.messages("old", 0, 3)).Wait(t.Context()))
	groups := []broker.Group{{Name: c.topic + ".one", Topics: []string{c.topic}},
		{Name: c.topic + ".two", Topics: []string{old.topic, c.topic}}}
	for _, g := range groups {
		if _, err := b.Subscribe(t.Context(), g); !errors.Is(err, broker.ErrNoTopic) {
			t.Fatalf("subscribed to a topic that does not exist: %v", err)
		}
	}
	must(t, b.MakeTopics(t.Context(), 1, c.topic))
	must(t, b.Publish(t.Context(), c.messages("k", 0, 3)).Wait(t.Context()))
	for _, g := range groups {
		if got := take(t, subscribe(t, b, g), 3); got[0].ID != "k-000000" || got[2].ID != "k-000002" {
			t.Errorf("%s reads %s to %s", g.Name, got[0].ID, got[2].ID)
		}
	}
}

// TestBrokerThatDoesNotKnowATopicYet, and says that it is not there, has nothing read again that was
// acknowledged.
func TestBrokerThatDoesNotKnowATopicYet(t *testing.T) {
	f := newFake(t)
	c := newChanging(t, f.seeds)
	b := c.open(t, kafkabroker.Options{Commit: time.Millisecond})
	must(t, b.MakeTopics(t.Context(), 1, c.topic))
	sub := subscribe(t, b, broker.Group{Name: c.topic, Topics: []string{c.topic}})
	must(t, b.Publish(t.Context(), c.messages("k", 0, 50)).Wait(t.Context()))
	must(t, sub.Ack(t.Context(), take(t, sub, 50)))
	until(t, "the acknowledgements", func() bool {
		got, err := c.adm.FetchOffsets(t.Context(), c.topic)
		return err == nil && got[c.topic][0].At == 50
	})
	stale := f.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: c.topic,
		Err: kerr.UnknownTopicID, Count: -1})
	told := false
	until(t, "the loss of the partition", func() bool {
		got, err := sub.Receive(t.Context(), 100)
		told = told || errors.Is(err, broker.ErrNoTopic)
		if len(got.Deliveries) > 0 {
			t.Fatalf("%s came again", got.Deliveries[0].ID)
		}
		return len(got.Lost) > 0
	})
	stale.Remove()
	must(t, b.Publish(t.Context(), c.messages("k", 50, 60)).Wait(t.Context()))
	if got := take(t, sub, 10); got[0].ID != "k-000050" || !told {
		t.Errorf("the first is %s; told of the deletion: %v", got[0].ID, told)
	}
}
