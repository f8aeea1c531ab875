package brokertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/skald-go/skald/broker"
)

// start is a row of the table "Where a consumer begins" in docs/dev/design.md. It has the state of the group
// in the database and at the broker, and the first of ten messages that is delivered.
type start struct {
	group string // broker's state: "nothing", "other" topic, "own" with six of ten acknowledged
	known bool
	at    int // index of the message at the database's checkpoint; -1: no checkpoint, -2: no database
	first int
	again int64
}

// testBegin tests the rows of that table, for a broker that can rewind. The tests of the drivers cover
// positions that other clients stored.
func testBegin(t *testing.T, s *suite) {
	if s.Forward {
		t.Skip("this broker cannot be rewound")
	}
	b := s.lasting(t)
	topic, other := s.topic(t, b, "t", 1), s.topic(t, b, "other", 1)
	publish(t, b, numbered(topic, "k", 0, 10)...)
	publish(t, b, numbered(other, "o", 0, 3)...)
	look := s.join(t, b, "look", topic)
	ds := look.take(t, 10)
	look.close(t)
	for name, c := range map[string]start{
		"a checkpoint, nothing":             {"nothing", true, 4, 4, 0},
		"a checkpoint, another topic":       {"other", true, 4, 4, 0},
		"a checkpoint behind a position":    {"own", true, 4, 4, 0},
		"a checkpoint ahead of a position":  {"own", true, 8, 6, 0},
		"a consumer, nothing":               {"nothing", true, -1, 0, 10},
		"a consumer, another topic":         {"other", true, -1, 0, 10},
		"a consumer, a position":            {"own", true, -1, 0, 6},
		"an empty database, nothing":        {"nothing", false, -1, 0, 0},
		"an empty database, another topic":  {"other", false, -1, 0, 10},
		"an empty database, a position":     {"own", false, -1, 0, 6},
		"without a database, nothing":       {"nothing", false, -2, 0, 0},
		"without a database, another topic": {"other", false, -2, 0, 0},
		"without a database, a position":    {"own", false, -2, 6, 0},
	} {
		t.Run(name, func(t *testing.T) {
			name := fmt.Sprintf("%s.%s.%t.%d", s.id, c.group, c.known, c.at)
			g := broker.Group{Name: name, Topics: []string{topic}}
			switch c.group {
			case "own":
				s.finish(t, b, g, 10, 6)
			case "other":
				s.finish(t, b, broker.Group{Name: g.Name, Topics: []string{other}}, 3, 3)
			}
			told := broker.Resumed{Known: c.known, Checkpoints: map[string]int64{}}
			if c.at >= 0 {
				told.Checkpoints[ds[0].Partition] = ds[c.at].Position
			}
			if c.at >= -1 {
				g.Resume = func(context.Context, []broker.Partition) (broker.Resumed, error) {
					return told, nil
				}
			}
			sub, err := b.Subscribe(t.Context(), g)
			must(t, "subscribe", err)
			var got []broker.Delivery
			var again int64
			for deadline := time.Now().Add(patience()); len(got) < 10-c.first; pause(t, deadline,
				fmt.Sprintf("%d messages came, want %d", len(got), 10-c.first)) {
				batch, err := sub.Receive(t.Context(), 100)
				must(t, "receive", err)
				for _, l := range batch.Gained {
					again += l.Redelivered
				}
				got = append(got, batch.Deliveries...)
			}
			if got[0].ID != ds[c.first].ID || again != c.again {
				t.Errorf("it begins at %s and reports %d again, want %s and %d", got[0].ID, again,
					ds[c.first].ID, c.again)
			}
			must(t, "close", sub.Close(t.Context()))
		})
	}
}

// finish makes the group receive messages, acknowledge the first acks of them, and leave.
func (s *suite) finish(t *testing.T, b Broker, g broker.Group, takes, acks int) {
	t.Helper()
	sub, err := b.Subscribe(t.Context(), g)
	must(t, "subscribe", err)
	m := &member{Subscription: sub, partitions: map[string]bool{}, last: map[string]int64{}}
	m.ack(t, m.take(t, takes)[:acks]...)
	m.close(t)
}
