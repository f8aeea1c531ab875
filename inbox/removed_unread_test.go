package inbox_test

import (
	"context"
	"strings"
	"testing"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/inbox"
)

// purged is a broker that has removed messages unread.
type purged struct{ broker.Subscriber }

func (f purged) Subscribe(ctx context.Context, g broker.Group) (broker.Subscription, error) {
	s, err := f.Subscriber.Subscribe(ctx, g)
	return &purgedSubscription{Subscription: s,
		missed: []broker.Missed{{Partition: "orders/0", From: 10, To: 100, Count: 90}}}, err
}

type purgedSubscription struct {
	broker.Subscription
	missed []broker.Missed
}

func (s *purgedSubscription) Receive(ctx context.Context, most int) (broker.Batch, error) {
	b, err := s.Subscription.Receive(ctx, most)
	b.Missed, s.missed = s.missed, nil
	return b, err
}

// TestMissedMessagesAreCounted: messages that the broker removed unread are counted, and written to the
// audit.
func TestMissedMessagesAreCounted(t *testing.T) {
	w := newWorld(t, 1)
	in := inbox.New(w.db, purged{w.bus}, "stock", nil)
	inbox.On(in, said, keep)
	w.quiet(in)
	until(t, "the note", func() bool { return len(w.db.AuditLog()) == 1 })
	if a := w.db.AuditLog()[0]; a.Action != "missed" || a.Consumer != "stock" ||
		!strings.Contains(a.Reason, "90 messages of partition orders/0") {
		t.Errorf("the audit has %+v", a)
	}
	if n := in.Health().Missed; n != 90 {
		t.Errorf("health has %d", n)
	}
}

// subscribing records the owner of the subscribed group.
type subscribing struct {
	broker.Subscriber
	owners []string
}

func (a *subscribing) Subscribe(ctx context.Context, g broker.Group) (broker.Subscription, error) {
	a.owners = append(a.owners, g.Owner)
	return a.Subscriber.Subscribe(ctx, g)
}

// TestOwnerOfAGroup: instances on one database have the same owner, those of another database have another
// one.
func TestOwnerOfAGroup(t *testing.T) {
	w, other := newWorld(t, 1), newWorld(t, 1)
	bus := &subscribing{Subscriber: w.bus}
	for _, db := range []*world{w, w, other} {
		in := inbox.New(db.db, bus, "stock", nil)
		inbox.On(in, said, keep)
		if _, err := in.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := in.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if o := bus.owners; len(o) != 3 || o[0] == "" || o[0] != o[1] || o[0] == o[2] {
		t.Errorf("the owners are %q", o)
	}
}
