package natsbroker_test

import (
	"errors"
	"fmt"
	"maps"
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

// TestEnvelopeOnTheWire: what a plain client reads, byte for byte.
func TestEnvelopeOnTheWire(t *testing.T) {
	addr := serve(t, t.TempDir(), 0).Addr().String()
	_, js := raw(t, addr)
	m := skald.Message{ID: "17", Source: "/s", Type: "order.placed", Key: []byte("größe 1"),
		ContentType: "application/json",
		Headers: []skald.Header{{Name: "event", Value: []byte("of mine")},
			{Name: "tenant", Value: []byte("acme")}}, Data: []byte(`{"n": 1}`)}
	gone := m
	gone.Data = nil
	for i, c := range []struct {
		e       broker.Envelope
		m       skald.Message
		headers string
		data    string
	}{
		{broker.Envelope{}, m, "Skald-Key=Z3LDtsOfZSAx event=of mine tenant=acme", `{"n": 1}`},
		{broker.Envelope{ID: "header:message-id", Type: "header:event", Key: "header:order"}, m,
			"event=order.placed message-id=17 order=größe 1 tenant=acme", `{"n": 1}`},
		{broker.Envelope{ID: "json:id", Key: "json:order"}, m, "event=of mine tenant=acme",
			`{"id":"17","order":"größe 1","n": 1}`},
		{broker.Envelope{Key: "json:n"}, m, "Skald-Key=Z3LDtsOfZSAx event=of mine tenant=acme", `{"n": 1}`},
		{broker.Envelope{ID: "json:id", Key: "json:order"}, gone,
			"Skald-Key=Z3LDtsOfZSAx Skald-Nil=1 ce-id=17 event=of mine tenant=acme", ""},
	} {
		b := open(t, addr, &natsbroker.Options{Envelope: &c.e})
		c.m.Topic = fmt.Sprint("t", i)
		if err := errors.Join(b.MakeTopics(t.Context(), 1, c.m.Topic),
			b.Publish(t.Context(), []skald.Message{c.m}).Wait(t.Context())); err != nil {
			t.Fatal(err)
		}
		got, err := stream(t, js, c.m.Topic).GetMsg(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		var headers []string
		for _, name := range slices.Sorted(maps.Keys(got.Header)) {
			if !strings.HasPrefix(name, "Nats-") {
				headers = append(headers, name+"="+strings.Join(got.Header[name], ","))
			}
		}
		if strings.Join(headers, " ") != c.headers || string(got.Data) != c.data {
			t.Errorf("%+v: wrote %q | %s", c.e, headers, got.Data)
		}
		sub, err := b.Subscribe(t.Context(), broker.Group{Name: "g", Topics: []string{c.m.Topic}})
		if err != nil {
			t.Fatal(err)
		}
		if d := receive(t, sub, some(1))[0]; string(d.Key) != string(m.Key) || d.Fault != nil {
			t.Errorf("%+v: read %+v with the key %q", c.e, d, d.Key)
		}
	}
}

func some(n int) func([]broker.Delivery) bool {
	return func(ds []broker.Delivery) bool { return len(ds) >= n }
}

// TestEnvelopeByPosition: the id of a message that has none is its place in the stream, on a durable, too.
func TestEnvelopeByPosition(t *testing.T) {
	addr := serve(t, t.TempDir(), 0).Addr().String()
	_, js := raw(t, addr)
	theirs(t, js, nil)
	for range 2 {
		if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "orders.paid", Data: []byte("d")},
			jetstream.WithRetryAttempts(10)); err != nil {
			t.Fatal(err)
		}
	}
	for _, durable := range []bool{false, true} {
		opts := shaped(durable)
		opts.Envelope = &broker.Envelope{ID: "position", Type: "topic", Source: "/old"}
		sub, err := open(t, addr, opts).Subscribe(t.Context(),
			broker.Group{Name: "billing", Topics: []string{"orders"}})
		if err != nil {
			t.Fatal(err)
		}
		for i, d := range receive(t, sub, some(2)) {
			if d.ID != fmt.Sprintf("orders/%d", i+1) || d.Source != "/old" || d.Type != "orders" {
				t.Errorf("durable %v: read %+v", durable, d.Message)
			}
		}
	}
}

// TestEnvelopesThatCannotBe are refused before anything is sent, and say why.
func TestEnvelopesThatCannotBe(t *testing.T) {
	for url, want := range map[string]string{
		"nats://a:1?envelope=id:cookie:x":         "header:NAME",
		"nats://a:1?envelope=name:header:x":       "cloudevents, off",
		"nats://a:1?envelope=id:header:ce-id":     `"ce-id"`,
		"nats://a:1?envelope=id:header:Skald-Key": `"Skald-Key"`,
		"nats://a:1?envelope=id:header:Nats-Id":   `"Nats-Id"`,
		"nats://a:1?envelope=id:header:a;b":       `"a;b"`,
	} {
		if _, _, err := natsbroker.ParseURL(strings.ReplaceAll(url, ";", "%3B"),
			func(string) string { return "" }); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", url, err)
		}
	}
	_, opts, err := natsbroker.ParseURL(
		"nats://a:1?envelope=id:header:message-id,type:topic,key:json:order,source:/old",
		func(string) string { return "" })
	if want := (broker.Envelope{ID: "header:message-id", Type: "topic", Key: "json:order",
		Source: "/old"}); err != nil || *opts.Envelope != want {
		t.Errorf("read %+v: %v", opts, err)
	}
	b := open(t, serve(t, t.TempDir(), 0).Addr().String(), &natsbroker.Options{Patience: time.Minute,
		Envelope: &broker.Envelope{ID: "header:message-id", Key: "header:order"}})
	if err := b.MakeTopics(t.Context(), 1, "t"); err != nil {
		t.Fatal(err)
	}
	for id, key := range map[string]string{"a\nb": "k", "c": "\xff", " d": "k"} {
		var pe *broker.PublishError
		m := skald.Message{ID: id, Topic: "t", Key: []byte(key), Data: []byte("d")}
		if err := b.Publish(t.Context(), []skald.Message{m}).Wait(t.Context()); !errors.As(err, &pe) ||
			pe.Refused[0] == nil {
			t.Errorf("%q of %q: %v", id, key, err)
		}
	}
}
