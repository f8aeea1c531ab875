package brokertest

import (
	"errors"
	"testing"
	"time"

	"github.com/skald-go/skald/broker"
)

// topicID waits until the broker returns the id of a topic.
func topicID(t *testing.T, b Broker, topic string) string {
	t.Helper()
	for deadline := time.Now().Add(patience()); time.Now().Before(deadline); time.Sleep(
		10 * time.Millisecond) {
		ids, err := b.Topics(t.Context(), topic, topic+".none")
		if err != nil && !errors.Is(err, broker.ErrUnavailable) {
			t.Fatalf("ask for the id of a topic: %v", err)
		}
		if _, there := ids[topic+".none"]; there {
			t.Fatalf("a topic that does not exist has the id %q", ids[topic+".none"])
		}
		if ids[topic] != "" {
			return ids[topic]
		}
	}
	t.Fatalf("topic %s has no id", topic)
	return ""
}

// wantRecreated publishes with an id that the topic does not have. Each attempt must fail with ErrRecreated.
func wantRecreated(t *testing.T, b Broker, topic string, only broker.Topics) {
	t.Helper()
	for range 3 {
		err := b.Publish(t.Context(), numbered(topic, "astray", 0, 3), only).Wait(t.Context())
		pe := asPublishError(t, err)
		if len(pe.Failed) != 3 || len(pe.Refused) != 0 || !errors.Is(pe.Failed[0], broker.ErrRecreated) {
			t.Fatalf("published under another id than the topic's: %v", err)
		}
	}
}

// testOnly checks that a message is published only if the topic has the expected id.
func testOnly(t *testing.T, s *suite) {
	b := s.open(t)
	topic, other := s.topic(t, b, "only", 2, "g"), s.topic(t, b, "other", 2, "g")
	id := topicID(t, b, topic)
	if again := topicID(t, s.open(t), topic); again != id {
		t.Fatalf("two clients of one broker see the ids %q and %q", id, again)
	}
	m := s.join(t, b, "g", topic)
	wantRecreated(t, b, topic, broker.Topics{topic: id + "x", other: id})
	wantRecreated(t, b, topic, broker.Topics{other: id})
	wantRecreated(t, b, topic, nil)
	must(t, "publish", b.Publish(t.Context(), numbered(topic, "k", 0, 3),
		broker.Topics{topic: id}).Wait(t.Context()))
	wantRecreated(t, b, topic, broker.Topics{topic: ""})
	publish(t, b, numbered(topic, "k", 3, 5)...) // without an expected id
	for i, d := range m.take(t, 5) {
		if want := message(topic, "k", i).ID; d.ID != want {
			t.Errorf("got %s, want %s", d.ID, want)
		}
	}
}

// testRecreated checks that a recreated topic accepts no messages with its old id, even from clients that
// have published to the old topic.
func testRecreated(t *testing.T, s *suite) {
	if s.Remove == nil {
		t.Skip("this broker does not tell in time")
	}
	b, late := s.open(t), s.open(t)
	topic, other := s.topic(t, b, "anew", 2), s.topic(t, b, "other", 2)
	was, its := topicID(t, b, topic), topicID(t, b, other)
	for range 4 { // so that every connection of the driver has used the topic
		must(t, "publish", b.Publish(t.Context(), numbered(topic, "k", 0, 3),
			broker.Topics{topic: was}).Wait(t.Context()))
	}
	s.Remove(t, topic)
	for deadline := time.Now().Add(patience()); ; {
		err := b.MakeTopics(t.Context(), 2, topic)
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("recreate the topic: %v", err)
		}
	}
	wantRecreated(t, b, topic, broker.Topics{topic: was})
	wantRecreated(t, late, topic, broker.Topics{topic: was})
	is := topicID(t, b, topic)
	for deadline := time.Now().Add(patience()); is == was && time.Now().Before(deadline); {
		is = topicID(t, b, topic)
	}
	if is == was {
		t.Fatalf("the new topic has the old id: %s", is)
	}
	wantRecreated(t, b, topic, broker.Topics{topic: was})
	now := broker.Topics{topic: is, other: its}
	for deadline := time.Now().Add(patience()); ; { // until all servers of the broker have the new topic
		err := b.Publish(t.Context(), append(numbered(topic, "k", 3, 5), numbered(other, "k", 0, 1)...),
			now).Wait(t.Context())
		if err == nil {
			break
		}
		if !errors.Is(err, broker.ErrRecreated) || time.Now().After(deadline) {
			t.Fatalf("publish to the new topic: %v", err)
		}
	}
	wantRecreated(t, b, topic, broker.Topics{topic: was})
	seen := map[string]bool{}
	for _, d := range s.join(t, b, "g", topic).take(t, 2) {
		seen[d.ID] = true
	}
	if !seen["k-000003"] || !seen["k-000004"] {
		t.Errorf("the new topic holds %v", seen)
	}
}
