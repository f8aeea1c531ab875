package brokertest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald/broker"
)

// testAnotherOwner: two services of one consumer name, on two databases, do not share a group. Who was there
// first has all, an instance of its own shares with it, and the other one is told why it has nothing. It has
// all once nobody of the first is left, and, where the group keeps its owner, an operator has the other one
// adopt it.
func testAnotherOwner(t *testing.T, s *suite) {
	b := s.open(t)
	topic := s.topic(t, b, "t", 4, "g")
	group := broker.Group{Name: s.id + ".g", Topics: []string{topic}, Owner: "a1"}
	theirs := group
	theirs.Owner = "b2"
	join := func(g broker.Group) *member {
		t.Helper()
		sub, err := b.Subscribe(t.Context(), g)
		must(t, "subscribe", err)
		return &member{Subscription: sub, partitions: map[string]bool{}, last: map[string]int64{}}
	}
	first := join(group)
	first.owns(t, 4)
	stranger := refused(t, b, theirs)
	second := join(group)
	settle(t, []*member{first, second}, 2, 2)
	for i := range 40 {
		publish(t, b, message(topic, strings.Repeat("k", i%8+1), i))
	}
	deadline := time.Now().Add(patience())
	for got := 0; got < 40; pause(t, deadline, "not all came to whose group it is") {
		for _, m := range []*member{first, second} {
			ds := m.receive(t, 100)
			m.ack(t, ds...)
			got += len(ds)
		}
		if stranger != nil {
			if b, err := stranger.Receive(t.Context(), 100); len(b.Gained) > 0 || err != nil &&
				!errors.Is(err, broker.ErrOwner) {
				t.Fatalf("the other has %v, %v", b.Gained, err)
			}
		}
	}
	first.close(t)
	second.close(t)
	if s.Capabilities != nil && s.Capabilities().Owners {
		s.adopted(t, b, group, theirs)
		return
	}
	if stranger == nil {
		join(theirs).owns(t, 4)
		return
	}
	for m := (&member{Subscription: stranger, partitions: map[string]bool{},
		last: map[string]int64{}}); len(m.partitions) < 4; {
		pause(t, deadline, "nobody is left, and the other has nothing")
		if b, err := stranger.Receive(t.Context(), 100); err == nil {
			for _, p := range b.Gained {
				m.partitions[p.Name] = true
			}
		} else if !errors.Is(err, broker.ErrOwner) {
			t.Fatal(err)
		}
	}
	must(t, "close", stranger.Close(t.Context()))
}

// refused joins as g and is told that the group is another's: by Subscribe, then it is no member, or by
// Receive.
func refused(t *testing.T, b Broker, g broker.Group) broker.Subscription {
	t.Helper()
	sub, err := b.Subscribe(t.Context(), g)
	for deadline := time.Now().Add(patience()); err == nil; {
		pause(t, deadline, "the other was not told")
		var got broker.Batch
		if got, err = sub.Receive(t.Context(), 100); len(got.Gained) > 0 {
			t.Fatalf("the other has %v", got.Gained)
		}
	}
	if !errors.Is(err, broker.ErrOwner) || !strings.Contains(err.Error(), g.Name) {
		t.Fatalf("the other was told: %v", err)
	}
	return sub
}

// adopted: a group without members keeps its owner, and refuses another one by name until that adopts it;
// then it refuses the first.
func (s *suite) adopted(t *testing.T, b Broker, first, theirs broker.Group) {
	t.Helper()
	theirs.OwnerName = "the other database"
	_, err := b.Subscribe(t.Context(), theirs)
	var refused *broker.OwnerError
	if !errors.As(err, &refused) || refused.Owner != first.Owner || !errors.Is(err, broker.ErrOwner) {
		t.Fatalf("nobody is left, and another owner gets: %v", err)
	}
	if err := b.Adopt(t.Context(), theirs, "c3"); !errors.As(err, &refused) {
		t.Errorf("adopted from an owner that it does not have: %v", err)
	}
	none := theirs
	none.Name += "-none"
	if err := b.Adopt(t.Context(), none, first.Owner); !errors.Is(err, broker.ErrNoGroup) {
		t.Errorf("adopted a group that does not exist: %v", err)
	}
	must(t, "adopt", b.Adopt(t.Context(), theirs, first.Owner))
	must(t, "adopt again", b.Adopt(t.Context(), theirs, first.Owner))
	sub, err := b.Subscribe(t.Context(), theirs)
	must(t, "subscribe", err)
	m := &member{Subscription: sub, partitions: map[string]bool{}, last: map[string]int64{}}
	m.owns(t, 4)
	m.close(t)
	_, err = b.Subscribe(t.Context(), first)
	if !errors.As(err, &refused) || refused.Owner != theirs.Owner || refused.OwnerName != theirs.OwnerName {
		t.Errorf("the first owner gets: %v", err)
	}
}
