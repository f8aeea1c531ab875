package rabbitbroker_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/rabbitbroker"
	"github.com/skald-go/skald/internal/need"
)

// TestEnvelopeOnTheWire: what a plain client reads beside AMQP's own fields, byte for byte.
func TestEnvelopeOnTheWire(t *testing.T) {
	t.Parallel()
	at := need.RabbitMQ(t)
	p := newPlace(t, at, nil, 1)
	if err := p.Declare(t.Context(), p.group("g")); err != nil {
		t.Fatal(err)
	}
	p.made.groups[p.group("g").Name] = true
	in, err := raw(t, at).Consume(rabbitbroker.Queue(p.group("g").Name, p.topic, 0), "", true, false,
		false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := skald.Message{ID: "17", Source: "/s", Type: "order.placed", Topic: p.topic, Key: []byte("größe 1"),
		ContentType: "application/json",
		Headers: []skald.Header{{Name: "event", Value: []byte("of mine")},
			{Name: "tenant", Value: []byte("acme")}}, Data: []byte(`{"n": 1}`)}
	gone := m
	gone.Data = nil
	for _, c := range []struct {
		e       broker.Envelope
		m       skald.Message
		headers amqp.Table
		data    string
	}{
		{broker.Envelope{}, m, amqp.Table{"Skald-Key": "größe 1", "event": "of mine", "tenant": "acme"},
			`{"n": 1}`},
		{broker.Envelope{ID: "header:message-id", Type: "header:event", Key: "header:order"}, m,
			amqp.Table{"event": "order.placed", "message-id": "17", "order": "größe 1", "tenant": "acme"},
			`{"n": 1}`},
		{broker.Envelope{ID: "json:id", Key: "json:order"}, m,
			amqp.Table{"event": "of mine", "tenant": "acme"}, `{"id":"17","order":"größe 1","n": 1}`},
		{broker.Envelope{Key: "json:n"}, m, amqp.Table{"Skald-Key": "größe 1", "event": "of mine",
			"tenant": "acme"}, `{"n": 1}`},
		{broker.Envelope{ID: "json:id", Key: "json:order"}, gone, amqp.Table{"Skald-Key": "größe 1",
			"Skald-Nil": "1", "cloudEvents_id": "17", "event": "of mine", "tenant": "acme"}, ""},
	} {
		b := open(t, at, &rabbitbroker.Options{Envelope: &c.e})
		if err := b.Publish(t.Context(), []skald.Message{c.m}).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		d := <-in
		if !maps.Equal(c.headers, d.Headers) || string(d.Body) != c.data || d.MessageId != "17" ||
			d.Type != "order.placed" || d.ContentType != "application/json" {
			t.Errorf("%+v: wrote %q | %s | %+v", c.e, d.Headers, d.Body, d)
		}
	}
}

// TestEnvelopeBeforeFields: what the envelope says wins over AMQP's own fields, a CloudEvent over both, and a
// field fills what is left open.
func TestEnvelopeBeforeFields(t *testing.T) {
	at := need.RabbitMQ(t)
	p := newPlace(t, at, &rabbitbroker.Options{Envelope: &broker.Envelope{ID: "header:event-id",
		Type: "json:kind", Source: "/old"}}, 1)
	s := p.join("g")
	ch := raw(t, at)
	for i, c := range []amqp.Publishing{
		{MessageId: "m", Type: "t", Headers: amqp.Table{"event-id": int32(7)},
			Body: []byte(`{"kind":"placed"}`)},
		{MessageId: "m", Type: "t", Body: []byte(`{}`)},
		{MessageId: "m", Type: "t", Headers: amqp.Table{"cloudEvents:specversion": "1.0",
			"cloudEvents:id": "ce", "cloudEvents:source": "/ce", "event-id": "8"},
			Body: []byte(`{"kind":"placed"}`)},
		{MessageId: "m", Type: "t", Body: []byte(`no object`)},
	} {
		confirm(t, ch, p.topic, "0.x", c)
		d := take(t, s, 1)[0]
		got := fmt.Sprintf("%s %s %s %v", d.ID, d.Type, d.Source, d.Fault != nil)
		if want := []string{"7 placed /old false", "m t /old false", "ce placed /ce false",
			"m t  true"}[i]; got != want {
			t.Errorf("%d: read %q, want %q; %v", i, got, want, d.Fault)
		}
		if err := s.Ack(t.Context(), []broker.Delivery{d}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEnvelopesThatCannotBe are refused before anything is sent, and say why.
func TestEnvelopesThatCannotBe(t *testing.T) {
	none := func(string) string { return "" }
	for url, want := range map[string]string{
		"amqp://a:1?envelope=id:cookie:x":              "header:NAME",
		"amqp://a:1?envelope=name:header:x":            "cloudevents, off",
		"amqp://a:1?envelope=id:position":              "message-id",
		"amqp://a:1?envelope=id:header:cloudEvents_id": `"cloudEvents_id"`,
		"amqp://a:1?envelope=id:header:CC":             `"CC"`,
		"amqp://a:1?envelope=id:header:x-death":        `"x-death"`,
	} {
		if _, _, err := rabbitbroker.ParseURL(url, none); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", url, err)
		}
	}
	if _, err := rabbitbroker.New("a:1",
		&rabbitbroker.Options{Envelope: &broker.Envelope{ID: "position"}}); err == nil {
		t.Error("a position is taken for an id")
	}
	_, opts, err := rabbitbroker.ParseURL(
		"amqp://a:1?envelope=id:header:message-id,type:topic,key:json:order,source:/old", none)
	if want := (broker.Envelope{ID: "header:message-id", Type: "topic", Key: "json:order",
		Source: "/old"}); err != nil || *opts.Envelope != want {
		t.Errorf("read %+v: %v", opts, err)
	}
}
