package brokertest

import (
	"testing"
	"time"

	"github.com/skald-go/skald/broker"
)

// testRecreatedUnderAMember: a member that lives while its topic is deleted and made anew loses its
// partition, uncleanly, and has all messages of the new topic by another, from the beginning and in order;
// also where the new one holds more than was read of the old one, and where it holds less.
func testRecreatedUnderAMember(t *testing.T, s *suite) {
	if s.Forward || s.Drop == nil {
		t.Skip("this broker cannot be rewound, or topics not be removed")
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
				pause(t, deadline, "the topic cannot be made anew")
			}
			for b.Publish(t.Context(), numbered(topic, "n", 0, 1)).Wait(t.Context()) != nil {
				pause(t, deadline, "nothing can be published to the new topic")
			}
			publish(t, b, numbered(topic, "n", 1, n)...)
			next, lost := 0, false
			for next < n {
				batch, err := m.Receive(t.Context(), 500)
				if err != nil {
					continue // it may say what became of the topic
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

// testRemovedUnread: what the broker removes before a group has read it is told, by a member that lives and
// by one that joins later, once and with its number. A group that is new misses nothing.
func testRemovedUnread(t *testing.T, s *suite) {
	if s.Purge == nil {
		t.Skip("this broker removes nothing unread")
	}
	b := s.open(t)
	topic := s.topic(t, b, "removed", 1)
	missed := func(m *member, last string) (n int64) {
		for deadline, ended := time.Now().Add(patience()), last == ""; !ended ||
			n == 0; pause(t, deadline, "nobody tells what was removed unread") {
			batch, err := m.Receive(t.Context(), 500)
			must(t, "receive", err)
			for _, gone := range batch.Missed {
				n += gone.Count
				if gone.To-gone.From != gone.Count || gone.Partition == "" {
					t.Errorf("it tells %+v", gone)
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
		t.Errorf("80 messages were removed while the group was away, and it tells of %d", n)
	}
	again.close(t)
	publish(t, b, numbered(topic, "k", 100, 120)...)
	s.Purge(t, topic, 30) // all there are
	none := s.join(t, b, "g", topic)
	if n := missed(none, ""); n != 20 {
		t.Errorf("20 messages were removed, nothing is left, and it tells of %d", n)
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
