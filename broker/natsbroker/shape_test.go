package natsbroker_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/natsbroker"
)

// theirs creates a stream with a durable, as another team would.
func theirs(t *testing.T, js jetstream.JetStream, set func(*jetstream.ConsumerConfig)) {
	t.Helper()
	_, err := js.CreateOrUpdateStream(t.Context(),
		jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}, Duplicates: 2 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	c := jetstream.ConsumerConfig{Durable: "billing", AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: 3 * time.Second, MaxDeliver: -1}
	if set != nil {
		set(&c)
	}
	if _, err := js.CreateOrUpdateConsumer(t.Context(), "ORDERS", c); err != nil {
		t.Fatal(err)
	}
}

func shaped(durable bool) *natsbroker.Options {
	return &natsbroker.Options{Shapes: map[string]natsbroker.Shape{"orders": {Stream: "ORDERS",
		Subject: "orders.{type}", Durable: durable}}}
}

// TestOldAndNew: on a team's own stream a client of nats.go reads what Skald writes, and Skald what that
// client writes; both are instances of one durable, beside each other, and each message is with one of them.
func TestOldAndNew(t *testing.T) {
	addr := serve(t, t.TempDir(), 0).Addr().String()
	_, js := raw(t, addr)
	// the old client acknowledges when all is published
	theirs(t, js, func(c *jetstream.ConsumerConfig) { c.AckWait = 5 * time.Minute })
	b := open(t, addr, shaped(true))
	sub, err := b.Subscribe(t.Context(), broker.Group{Name: "billing", Topics: []string{"orders"}})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close(t.Context())
	old, err := js.Consumer(t.Context(), "ORDERS", "billing")
	if err != nil {
		t.Fatal(err)
	}
	batch, err := old.Fetch(10, jetstream.FetchMaxWait(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	const each = 30
	for i := range each {
		m := message("orders", "k", i)
		m.Type, m.Headers = "created", []skald.Header{{Name: "tenant", Value: []byte("acme")}}
		if err := b.Publish(t.Context(), []skald.Message{m}).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		plain := &nats.Msg{Subject: "orders.paid", Header: nats.Header{"tenant": {"acme"}},
			Data: fmt.Appendf(nil, "plain-%d", i)}
		if _, err := js.PublishMsg(t.Context(), plain); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]string{}
	note := func(id, who string) {
		if seen[id] != "" {
			t.Errorf("%s came to %s and to %s", id, seen[id], who)
		}
		seen[id] = who
	}
	fetched := 0
	for m := range batch.Messages() {
		fetched++
		if m.Headers().Get("tenant") != "acme" || m.Subject() == "orders.created" &&
			m.Headers().Get("ce-source") != "/s" {
			t.Errorf("the old client reads %s %q", m.Subject(), m.Headers())
		}
		if id := m.Headers().Get("ce-id"); id != "" {
			note(id, "the old client")
		} else {
			note(string(m.Data()), "the old client")
		}
		if err := m.DoubleAck(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ds := receive(t, sub, func(ds []broker.Delivery) bool { return len(ds) >= 2*each-fetched })
	for _, d := range ds {
		if d.ID == "" {
			d.ID = string(d.Data)
		}
		note(d.ID, "Skald")
		if len(d.Headers) != 1 || string(d.Headers[0].Value) != "acme" || d.Fault != nil {
			t.Errorf("Skald reads %+v", d)
		}
	}
	if len(seen) != 2*each || fetched == 0 {
		t.Errorf("%d messages came, %d of them to the old client", len(seen), fetched)
	}
	if err := sub.Ack(t.Context(), ds); err != nil {
		t.Fatal(err)
	}
	until(t, "the acknowledgements", func() bool {
		info, err := old.Info(t.Context())
		return err == nil && info.NumAckPending == 0 && info.NumPending == 0
	})
}

// TestDurableGivesBack: what an instance holds longer than ack_wait does not come to others while it lives;
// when it leaves, what it has not finished comes at once, and when it is killed, after ack_wait; a pause
// holds the partition.
func TestDurableGivesBack(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for the server for 15 seconds: in make test")
	}
	addr := serve(t, t.TempDir(), 0).Addr().String()
	_, js := raw(t, addr)
	// a shorter one a slow machine may sleep through
	theirs(t, js, func(c *jetstream.ConsumerConfig) { c.AckWait = 5 * time.Second })
	b, b2 := open(t, addr, shaped(true)), open(t, addr, shaped(true))
	join := func(b *natsbroker.Broker) broker.Subscription {
		t.Helper()
		sub, err := b.Subscribe(t.Context(), broker.Group{Name: "billing", Topics: []string{"orders"}})
		if err != nil {
			t.Fatal(err)
		}
		return sub
	}
	one := join(b)
	const n = 20
	for i := range n {
		m := message("orders", "k", i)
		m.Type = "created"
		if err := b.Publish(t.Context(), []skald.Message{m}).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ds := receive(t, one, func(ds []broker.Delivery) bool { return len(ds) == n })
	two := join(b2)
	for deadline := time.Now().Add(11 * time.Second); time.Now().Before(deadline); <-time.After(
		50 * time.Millisecond) {
		// twice ack_wait
		got, err := two.Receive(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Deliveries) > 0 {
			t.Fatalf("%s came to another while its instance is at work", got.Deliveries[0].ID)
		}
	}
	if err := errors.Join(one.Ack(t.Context(), ds[:5]), one.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	again := receive(t, two, func(ds []broker.Delivery) bool { return len(ds) == n-5 })
	for _, d := range again {
		if d.ID < message("orders", "k", 5).ID || d.Attempt == 0 {
			t.Errorf("%s came again, attempt %d", d.ID, d.Attempt)
		}
	}
	natsbroker.Cut(b2) // as death would
	three := join(open(t, addr, shaped(true)))
	got := receive(t, three, func(ds []broker.Delivery) bool { return len(ds) >= n-5 })
	three.Pause(got[0].Partition)
	m := message("orders", "k", n)
	m.Type = "created"
	if err := b.Publish(t.Context(), []skald.Message{m}).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := three.Receive(t.Context(), 10); err != nil || len(got.Deliveries) > 0 {
		t.Errorf("%d came by a paused partition: %v", len(got.Deliveries), err)
	}
	three.Resume(got[0].Partition)
	receive(t, three, func(ds []broker.Delivery) bool { return len(ds) == 1 })
	if err := errors.Join(three.Ack(t.Context(), got), three.Close(t.Context())); err != nil {
		t.Error(err)
	}
}

// TestShapedInOrder: a team's stream without a durable is one partition, which a group of Skald's own reads
// in order.
func TestShapedInOrder(t *testing.T) {
	addr := serve(t, t.TempDir(), 0).Addr().String()
	_, js := raw(t, addr)
	theirs(t, js, nil)
	b := open(t, addr, shaped(false))
	sub, err := b.Subscribe(t.Context(), broker.Group{Name: "g", Topics: []string{"orders"}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if _, err := js.Publish(t.Context(), fmt.Sprint("orders.s", i%3), fmt.Append(nil, i),
			jetstream.WithMsgID("one")); err != nil {
			t.Fatal(err)
		}
		m := message("orders", "k", i)
		m.ID, m.Type = "the same", "created" // no window of NATS's drops what is meant to come again
		if err := b.Publish(t.Context(), []skald.Message{m}).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	// 19 of the raw client's, by its own wish
	ds := receive(t, sub, func(ds []broker.Delivery) bool { return len(ds) == 21 })
	if string(ds[0].Data) != "0" || ds[1].ID != "the same" {
		t.Errorf("got %q and %q", ds[0].Data, ds[1].ID)
	}
	if err := errors.Join(sub.Ack(t.Context(), ds), sub.Close(t.Context())); err != nil {
		t.Error(err)
	}
	bad := message("orders", "k", 0)
	bad.Type = "no subject >"
	var pe *broker.PublishError
	if err := b.Publish(t.Context(), []skald.Message{bad}).Wait(t.Context()); !errors.As(err, &pe) ||
		pe.Refused[0] == nil {
		t.Errorf("a type that is not a valid subject: %v", err)
	}
}

// TestConsumersThatLoseMessages: a durable that drops, forgets or cannot be shared is refused, with the
// setting's name.
func TestConsumersThatLoseMessages(t *testing.T) {
	addr := serve(t, t.TempDir(), 0).Addr().String()
	_, js := raw(t, addr)
	b := open(t, addr, shaped(true))
	subscribe := func() error {
		sub, err := b.Subscribe(t.Context(), broker.Group{Name: "billing", Topics: []string{"orders"}})
		if err == nil {
			err = sub.Close(t.Context())
		}
		return err
	}
	if err := subscribe(); !errors.Is(err, broker.ErrNoTopic) || !strings.Contains(err.Error(), "ORDERS") {
		t.Errorf("without a stream: %v", err)
	}
	theirs(t, js, nil)
	if err := subscribe(); err != nil {
		t.Error(err)
	}
	for setting, set := range map[string]func(*jetstream.ConsumerConfig){
		"ack_policy":         func(c *jetstream.ConsumerConfig) { c.AckPolicy = jetstream.AckAllPolicy },
		"max_deliver":        func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 5 },
		"inactive_threshold": func(c *jetstream.ConsumerConfig) { c.InactiveThreshold = time.Hour },
		"mem_storage":        func(c *jetstream.ConsumerConfig) { c.MemoryStorage = true },
		"headers_only":       func(c *jetstream.ConsumerConfig) { c.HeadersOnly = true },
		"ack_wait":           func(c *jetstream.ConsumerConfig) { c.AckWait = 500 * time.Millisecond },
		"pause_until": func(c *jetstream.ConsumerConfig) {
			at := time.Now().Add(time.Hour)
			c.PauseUntil = &at
		},
	} {
		if err := js.DeleteConsumer(t.Context(), "ORDERS", "billing"); err != nil {
			t.Fatal(err)
		}
		theirs(t, js, set)
		if err := subscribe(); err == nil || !strings.Contains(err.Error(), setting) ||
			!strings.Contains(err.Error(), "billing") {
			t.Errorf("%s: %v", setting, err)
		}
	}
	if err := js.DeleteConsumer(t.Context(), "ORDERS", "billing"); err != nil {
		t.Fatal(err)
	}
	if err := subscribe(); !errors.Is(err, broker.ErrNoTopic) || !strings.Contains(err.Error(), "billing") {
		t.Errorf("without a consumer: %v", err)
	}
	if _, err := js.CreateOrUpdatePushConsumer(t.Context(), "ORDERS",
		jetstream.ConsumerConfig{Durable: "billing", DeliverSubject: "there",
			AckPolicy: jetstream.AckExplicitPolicy}); err != nil {
		t.Fatal(err)
	}
	if err := subscribe(); err == nil || !strings.Contains(err.Error(), "deliver_subject") {
		t.Errorf("one that pushes: %v", err)
	}
	mixed := &natsbroker.Options{Shapes: map[string]natsbroker.Shape{"orders": {Stream: "ORDERS",
		Durable: true}}}
	c := open(t, addr, mixed)
	if err := c.MakeTopics(t.Context(), 1, "own"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Subscribe(t.Context(), broker.Group{Name: "billing",
		Topics: []string{"orders", "own"}}); err == nil || !strings.Contains(err.Error(), "durables") {
		t.Errorf("two kinds of topics: %v", err)
	}
}

// TestTypeFromTheSubject: a publisher that sets no type says by its subject what a message is. A type of its
// own stays, and the handler learns a subject that Skald would not have chosen.
func TestTypeFromTheSubject(t *testing.T) {
	for _, durable := range []bool{false, true} {
		addr := serve(t, t.TempDir(), 0).Addr().String()
		_, js := raw(t, addr)
		theirs(t, js, nil)
		b := open(t, addr, shaped(durable))
		sub, err := b.Subscribe(t.Context(), broker.Group{Name: "billing", Topics: []string{"orders"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []*nats.Msg{{Subject: "orders.created", Data: []byte("1")},
			{Subject: "orders.eu.paid", Data: []byte("2")},
			{Subject: "orders.created", Header: nats.Header{"ce-type": {"order"}}, Data: []byte("3")}} {
			if _, err := js.PublishMsg(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		m := message("orders", "k", 4)
		m.Type = "created"
		if err := b.Publish(t.Context(), []skald.Message{m}).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range receive(t, sub, func(ds []broker.Delivery) bool { return len(ds) >= 4 }) {
			got = append(got, fmt.Sprintf("%s %s", d.Type, d.Headers))
		}
		slices.Sort(got)
		if want := []string{"created []", "created []", "eu.paid []",
			"order [{x-route orders.created}]"}; !slices.Equal(got, want) {
			t.Errorf("durable %v: read %q, want %q", durable, got, want)
		}
		if err := sub.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
