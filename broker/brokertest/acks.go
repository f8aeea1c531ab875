package brokertest

import (
	"fmt"
	"testing"

	"github.com/skald-go/skald/broker"
)

func testAckPrefix(t *testing.T, s *suite) {
	b := s.open(t)
	topic := s.topic(t, b, "t", 1, "g")
	publish(t, b, numbered(topic, "k", 0, 10)...)
	one := s.join(t, b, "g", topic)
	ds := one.take(t, 10)
	one.ack(t, ds[3]) // also acknowledges all earlier deliveries
	one.close(t)
	two := s.join(t, b, "g", topic)
	got := two.take(t, 6)
	if got[0].ID != ds[4].ID || got[0].Position != ds[4].Position && !s.Forward {
		t.Errorf("after an ack of %s came %s at %d", ds[3].ID, got[0].ID, got[0].Position)
	}
	two.ack(t, got...)
	two.ack(t, got[0]) // late, without effect
	two.close(t)
	publish(t, b, message(topic, "k", 10))
	if got := s.join(t, b, "g", topic).take(t, 1); got[0].ID != message(topic, "k", 10).ID {
		t.Errorf("came again: %s", got[0].ID)
	}
}

// testAckInterleaved acknowledges alternating deliveries of two partitions with one Ack.
func testAckInterleaved(t *testing.T, s *suite) {
	b := s.open(t)
	x, y := s.topic(t, b, "x", 1), s.topic(t, b, "y", 1)
	m := s.join(t, b, "g", x, y)
	publish(t, b, append(numbered(x, "k", 0, 3), numbered(y, "k", 0, 3)...)...)
	came := map[string][]broker.Delivery{}
	for _, d := range m.take(t, 6) {
		came[d.Topic] = append(came[d.Topic], d)
	}
	var turns []broker.Delivery
	for i := range 3 {
		turns = append(turns, came[x][i], came[y][i])
	}
	m.ack(t, turns...)
	publish(t, b, message(x, "k", 3), message(y, "k", 3))
	for _, d := range m.take(t, 2) {
		if d.ID != message(d.Topic, "k", 3).ID {
			t.Errorf("%s came again", d.ID)
		}
	}
	if len(m.lost) > 0 {
		t.Errorf("the acknowledgement lost partitions %v", m.lost)
	}
}

func testAckLost(t *testing.T, s *suite) {
	b := s.open(t)
	topic := s.topic(t, b, "t", 2)
	var ds []broker.Delivery
	one := s.join(t, b, "g", topic)
	one.owns(t, 2)
	publish(t, b, append(numbered(topic, "a", 0, 5),
		append(numbered(topic, "b", 0, 5), numbered(topic, "c", 0, 5)...)...)...)
	ds = one.take(t, 15)
	two := s.join(t, b, "g", topic)
	again := settle(t, []*member{one, two}, 1, 1)
	moved := one.lost[0].Name
	if !one.lost[0].Clean {
		t.Errorf("partition %s moved to a new member, yet was lost uncleanly", moved)
	}
	one.ack(t, ds...) // Ack ignores the deliveries of the lost partition
	one.close(t)
	two.close(t)
	three := s.join(t, b, "g", topic)
	want := 0
	for _, d := range ds {
		if d.Partition == moved {
			want++
		}
	}
	for _, d := range three.take(t, want) {
		if d.Partition != moved {
			t.Errorf("%s came again although it was acknowledged; %d came meanwhile", d.ID, len(again))
		}
	}
}

func testPause(t *testing.T, s *suite) {
	b := s.open(t)
	x, y := s.topic(t, b, "x", 1), s.topic(t, b, "y", 1)
	m := s.join(t, b, "g", x, y)
	publish(t, b, message(x, "k", 0), message(y, "k", 0))
	var held string
	for _, d := range m.take(t, 2) {
		if d.Topic == x {
			held = d.Partition
		}
	}
	m.Pause(held)
	const n = 50
	for i := 1; i <= n; i++ { // one by one, so that late messages arrive before the end
		publish(t, b, message(x, "k", i), message(y, "k", i))
		m.receiveUntil(t, "messages of the other partition", func(ds []broker.Delivery) bool {
			for _, d := range ds {
				if d.Topic == x {
					t.Fatalf("%s, which was published to a paused partition, came", d.ID)
				}
			}
			return len(ds) > 0
		})
	}
	if !m.partitions[held] {
		t.Error("a paused partition was lost")
	}
	m.Resume(held)
	for i, d := range m.take(t, n) {
		if want := message(x, "k", i+1).ID; d.ID != want {
			t.Fatalf("got %s, want %s", d.ID, want)
		}
	}
}

// testPauseEnds checks that a regained partition delivers, even if the member paused it before it was lost.
func testPauseEnds(t *testing.T, s *suite) {
	b := s.open(t)
	topic := s.topic(t, b, "t", 2)
	one := s.join(t, b, "g", topic)
	one.owns(t, 2)
	for partition := range one.partitions {
		one.Pause(partition)
	}
	two := s.join(t, b, "g", topic)
	settle(t, []*member{one, two}, 1, 1)
	kept := ""
	for partition := range one.partitions {
		kept = partition
	}
	two.close(t)
	one.owns(t, 2)
	one.Resume(kept)
	for i := range 16 {
		publish(t, b, message(topic, fmt.Sprint("k", i), 0))
	}
	used := map[string]bool{}
	for _, d := range one.take(t, 16) {
		used[d.Partition] = true
	}
	if len(used) != 2 {
		t.Errorf("16 keys came by %v", used)
	}
}
