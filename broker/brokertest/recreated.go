package brokertest

import (
	"testing"
	"time"

	"github.com/skald-go/skald/broker"
)

// testRecreatedUnderAMember deletes and recreates the topic of a member. The member must lose its partition,
// with Clean false. Then it must receive all messages of the new topic in order. The new topic has more
// messages, or fewer, than the member read from the old one.
func testRecreatedUnderAMember(t *testing.T, s *suite) {
	if s.Forward || s.Drop == nil {
		t.Skip("this broker cannot rewind, or cannot remove topics")
	}
	for name, n := range map[string]int{"more": 90, "less": 20} {
		t.Run(name, func(t *testing.T) {
			b := s.open(t)
			topic := s.topic(t, b, "recreated."+name, 1)
			m := s.join(t, b, "g", topic)
			publish(t, b, numbered(topic, "k", 0, 60)...)
			ds := m.take(t, 60)
			m.ack(t, ds...)
			s.Drop(t, topic)
			deadline := time.Now().Add(patience())
			for b.MakeTopics(t.Context(), 1, topic) != nil {
				pause(t, deadline, "the topic cannot be recreated")
			}
			for b.Publish(t.Context(), numbered(topic, "n", 0, 1)).Wait(t.Context()) != nil {
				pause(t, deadline, "nothing can be published to the new topic")
			}
			publish(t, b, numbered(topic, "n", 1, n)...)
			next, lost := 0, false
			for next < n {
				batch, err := m.Receive(t.Context(), 500)
				if err != nil {
					continue // the error may be about the deleted topic
				}
				for _, l := range batch.Lost {
					lost = lost || !l.Clean
				}
				for _, d := range batch.Deliveries {
					if want := message(topic, "n", next).ID; d.ID != want &&
						d.ID != message(topic, "n", 0).ID {
						t.Fatalf("got %s, want %s", d.ID, want)
					} else if d.ID == want {
						next++
					}
				}
				must(t, "ack", m.Ack(t.Context(), batch.Deliveries))
				pause(t, deadline, "the messages of the new topic do not come")
			}
			if !lost {
				t.Error("the partition of the old topic was not lost")
			}
			must(t, "close", m.Close(t.Context()))
		})
	}
}

// testRemovedUnread removes messages before a group has read them. The broker must report their number once,
// to a running member or to a member that joins later. A new group must get no such report.
func testRemovedUnread(t *testing.T, s *suite) {
	if s.Purge == nil {
		t.Skip("this broker removes no unread messages")
	}
	b := s.open(t)
	topic := s.topic(t, b, "removed", 1)
	missed := func(m *member, last string) (n int64) {
		for deadline, ended := time.Now().Add(patience()), last == ""; !ended ||
			n == 0; pause(t, deadline, "removed messages are not reported") {
			batch, err := m.Receive(t.Context(), 500)
			must(t, "receive", err)
			for _, gone := range batch.Missed {
				n += gone.Count
				if gone.To-gone.From != gone.Count || gone.Partition == "" {
					t.Errorf("it reports %+v", gone)
				}
			}
			for _, d := range batch.Deliveries {
				ended = ended || d.ID == last
			}
			must(t, "ack", m.Ack(t.Context(), batch.Deliveries))
		}
		return n
	}
	m := s.join(t, b, "g", topic)
	publish(t, b, numbered(topic, "k", 0, 10)...)
	ds := m.take(t, 10)
	m.ack(t, ds...)
	m.close(t)
	publish(t, b, numbered(topic, "k", 10, 100)...)
	s.Purge(t, topic, 90)
	again := s.join(t, b, "g", topic)
	if n := missed(again, message(topic, "k", 99).ID); n != 80 {
		t.Errorf("80 messages were removed while the group was away, and it reports %d", n)
	}
	again.close(t)
	publish(t, b, numbered(topic, "k", 100, 120)...)
	s.Purge(t, topic, 30) // all messages
	none := s.join(t, b, "g", topic)
	if n := missed(none, ""); n != 20 {
		t.Errorf("all 20 messages were removed, and it reports %d", n)
	}
	none.close(t)
	publish(t, b, numbered(topic, "k", 120, 130)...)
	fresh, err := b.Subscribe(t.Context(), broker.Group{Name: s.id + ".fresh", Topics: []string{topic}})
	must(t, "subscribe", err)
	for deadline, seen := time.Now().Add(patience()), 0; seen < 10; pause(t, deadline,
		"a new group gets nothing") {
		batch, err := fresh.Receive(t.Context(), 500)
		must(t, "receive", err)
		if seen += len(batch.Deliveries); len(batch.Missed) > 0 {
			t.Errorf("a new group misses %+v", batch.Missed)
		}
	}
	must(t, "close", fresh.Close(t.Context()))
}
