package natsbroker_test

import (
	"fmt"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
)

// TestAllRemovedOfSharedStream: a topic of several partitions, of which retention removed all that a group
// had not read, is told of when the group joins, once, though nothing is left to read.
func TestAllRemovedOfSharedStream(t *testing.T) {
	addr := serve(t, t.TempDir(), 0).Addr().String()
	_, js := raw(t, addr)
	b := open(t, addr, nil)
	if err := b.MakeTopics(t.Context(), 4, "orders"); err != nil {
		t.Fatal(err)
	}
	publish := func(from, to int) {
		var ms []skald.Message
		for i := from; i < to; i++ {
			ms = append(ms, message("orders", fmt.Sprint("k", i), i))
		}
		if err := b.Publish(t.Context(), ms).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	join := func() broker.Subscription {
		sub, err := b.Subscribe(t.Context(), broker.Group{Name: "g", Topics: []string{"orders"}})
		if err != nil {
			t.Fatal(err)
		}
		return sub
	}
	// gain receives until all partitions are owned.
	gain := func(sub broker.Subscription) (n int64) {
		owned := 0
		until(t, "four partitions", func() bool {
			got, err := sub.Receive(t.Context(), 100)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range got.Missed {
				n += m.Count
			}
			owned += len(got.Gained)
			return owned == 4
		})
		return n
	}
	end := func(sub broker.Subscription) {
		if err := sub.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	publish(0, 20)
	sub := join()
	ds := receive(t, sub, func(ds []broker.Delivery) bool { return len(ds) == 20 })
	if err := sub.Ack(t.Context(), ds); err != nil {
		t.Fatal(err)
	}
	end(sub)
	publish(20, 50)
	if err := stream(t, js, "orders").Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	sub = join()
	if n := gain(sub); n != 30 {
		t.Errorf("30 messages were removed, and it tells of %d", n)
	}
	end(sub)
	sub = join()
	if n := gain(sub); n != 0 {
		t.Errorf("it tells again, of %d", n)
	}
	publish(50, 51)
	receive(t, sub, func(ds []broker.Delivery) bool { return len(ds) == 1 })
	end(sub)
}
