package natsbroker_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/natsbroker"
)

const aheadSize = 700_000

// large publishes n large messages.
func large(t *testing.T, b *natsbroker.Broker, topic string, n int) {
	t.Helper()
	var ms []skald.Message
	for i := range n {
		m := message(topic, "k", i)
		m.Type, m.Data = "created", bytes.Repeat([]byte("x"), aheadSize)
		ms = append(ms, m)
	}
	if err := b.Publish(t.Context(), ms).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// still waits until the result of held stops to grow, and returns it.
func still(held func() int) int {
	for was := -1; ; time.Sleep(200 * time.Millisecond) {
		if n := held(); n > 0 && n == was {
			return n
		} else {
			was = n
		}
	}
}

// A member that does not receive holds a few MiB of each partition ready, whatever Prefetch is, and goes on
// behind them.
func TestReadAheadIsBoundedInBytes(t *testing.T) {
	const all = 60
	b := open(t, serve(t, t.TempDir(), 0).Addr().String(), nil)
	if err := b.MakeTopics(t.Context(), 1, "t"); err != nil {
		t.Fatal(err)
	}
	large(t, b, "t", all)
	sub, err := b.Subscribe(t.Context(), broker.Group{Name: "g", Topics: []string{"t"}})
	if err != nil {
		t.Fatal(err)
	}
	s := sub.(*natsbroker.Subscription)
	if n := still(s.HeldBytes); n > 4<<20+aheadSize+4096 {
		t.Errorf("%d messages with %d bytes are held", s.Held(), n)
	}
	receive(t, sub, func(ds []broker.Delivery) bool { return len(ds) == all })
	if n := s.HeldBytes(); n != 0 {
		t.Errorf("%d bytes are held of no message", n)
	}
}

// An instance of a durable holds so many bytes unacknowledged, and one fetch more.
func TestDurableIsBoundedInBytes(t *testing.T) {
	const all = 80
	addr := serve(t, t.TempDir(), 0).Addr().String()
	_, js := raw(t, addr)
	theirs(t, js, nil)
	b := open(t, addr, shaped(true))
	large(t, b, "orders", all)
	sub, err := b.Subscribe(t.Context(), broker.Group{Name: "billing", Topics: []string{"orders"}})
	if err != nil {
		t.Fatal(err)
	}
	held := func() int { return natsbroker.HeldBytes(sub) }
	if n := still(held); n > 16<<20+32*(aheadSize+4096) {
		t.Errorf("%d bytes are held", n)
	}
	for n := 0; n < all; {
		ds := receive(t, sub, func(ds []broker.Delivery) bool { return len(ds) > 0 })
		if err := sub.Ack(t.Context(), ds); err != nil {
			t.Fatal(err)
		}
		n += len(ds)
	}
}
