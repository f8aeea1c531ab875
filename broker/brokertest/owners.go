package brokertest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald/broker"
)

// testAnotherOwner checks that two services with the same consumer name and different databases do not share
// a group. The first service gets all partitions, and shares them with its own instances. The other service
// gets an error with the reason. After the last member of the first service has left, the other service gets
// all partitions. If the broker stores the owner, an operator must call Adopt before that.
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
	for got := 0; got < 40; pause(t, deadline, "not all messages came to the owner") {
		for _, m := range []*member{first, second} {
			ds := m.receive(t, 100)
			m.ack(t, ds...)
			got += len(ds)
		}
		if stranger != nil {
			if b, err := stranger.Receive(t.Context(), 100); len(b.Gained) > 0 || err != nil &&
				!errors.Is(err, broker.ErrOwner) {
				t.Fatalf("the other owner got %v, %v", b.Gained, err)
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
		pause(t, deadline, "the first owner has left, and the other gets nothing")
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

// refused joins as g and expects an ErrOwner, from Subscribe or from Receive. It returns nil if Subscribe
// fails.
func refused(t *testing.T, b Broker, g broker.Group) broker.Subscription {
	t.Helper()
	sub, err := b.Subscribe(t.Context(), g)
	for deadline := time.Now().Add(patience()); err == nil; {
		pause(t, deadline, "the other owner got no error")
		var got broker.Batch
		if got, err = sub.Receive(t.Context(), 100); len(got.Gained) > 0 {
			t.Fatalf("the other owner got %v", got.Gained)
		}
	}
	if !errors.Is(err, broker.ErrOwner) || !strings.Contains(err.Error(), g.Name) {
		t.Fatalf("the other owner got the error: %v", err)
	}
	return sub
}

// adopted checks that a group without members keeps its owner, and refuses another owner until Adopt. After
// Adopt the group refuses the first owner.
func (s *suite) adopted(t *testing.T, b Broker, first, theirs broker.Group) {
	t.Helper()
	theirs.OwnerName = "the other database"
	_, err := b.Subscribe(t.Context(), theirs)
	var refused *broker.OwnerError
	if !errors.As(err, &refused) || refused.Owner != first.Owner || !errors.Is(err, broker.ErrOwner) {
		t.Fatalf("after the first owner left, the other gets: %v", err)
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
