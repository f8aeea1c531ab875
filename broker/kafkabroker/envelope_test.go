package kafkabroker_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/kafkabroker"
)

// TestEnvelopes: what is written, and what is read of it.
func TestEnvelopes(t *testing.T) {
	m := skald.Message{ID: "17", Source: "/new", Type: "order.placed", Topic: "orders", Key: []byte("o1"),
		ContentType: "application/json",
		Headers:     []skald.Header{{Name: "tenant", Value: []byte("acme")}}, Data: []byte(`{ "n": 1}`)}
	for name, c := range map[string]struct {
		envelope              broker.Envelope
		data                  string
		headers, value        string
		id, kind, key, source string
	}{
		"off": {envelope: broker.Envelope{}, headers: "tenant=acme", key: "o1"},
		"headers": {envelope: broker.Envelope{ID: "header:message-id", Type: "header:event"},
			headers: "message-id=17 event=order.placed tenant=acme", id: "17", kind: "order.placed",
			key: "o1", source: "orders"},
		"fields": {envelope: broker.Envelope{ID: "json:id", Type: "json:kind", Key: "json:order",
			Source: "/old"}, headers: "tenant=acme",
			value: `{"id":"17","kind":"order.placed","order":"o1", "n": 1}`, id: "17", kind: "order.placed",
			key: "o1", source: "/old"},
		"fields there": {envelope: broker.Envelope{ID: "json:id"}, data: `{"id": 42.0}`,
			headers: "tenant=acme", value: `{"id": 42.0}`, id: "42.0", key: "o1", source: "orders"},
		"an empty object": {envelope: broker.Envelope{ID: "json:id"}, data: ` {}`, headers: "tenant=acme",
			value: ` {"id":"17"}`, id: "17", key: "o1", source: "orders"},
		"position": {envelope: broker.Envelope{ID: "position"}, headers: "tenant=acme", id: "orders/0/0",
			key: "o1", source: "orders"},
	} {
		in := m
		if c.data != "" {
			in.Data = []byte(c.data)
		}
		if c.value == "" {
			c.value = string(in.Data)
		}
		r, back, err := kafkabroker.Map(c.envelope, in)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		headers := ""
		for i, h := range r.Headers {
			if i > 0 {
				headers += " "
			}
			headers += fmt.Sprintf("%s=%s", h.Key, h.Value)
		}
		if headers != c.headers || string(r.Value) != c.value || string(r.Key) != "o1" {
			t.Errorf("%s: wrote %s | %s | %s", name, headers, r.Key, r.Value)
		}
		if back.ID != c.id || back.Type != c.kind || string(back.Key) != c.key || back.Source != c.source {
			t.Errorf("%s: read %+v", name, back)
		}
	}
	tombstone := m
	tombstone.Data = nil
	if r, back, err := kafkabroker.Map(broker.Envelope{ID: "json:id"}, tombstone); err != nil ||
		r.Value != nil || back.ID != m.ID || back.Source != m.Topic {
		t.Errorf("a tombstone became %q, read as %+v: %v", r.Value, back, err)
	}
}

// TestEnvelopesOfOthers are read as far as they go; what is broken is a fault, with everything as it came.
func TestEnvelopesOfOthers(t *testing.T) {
	head := func(pairs ...string) (out []kgo.RecordHeader) {
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, kgo.RecordHeader{Key: pairs[i], Value: []byte(pairs[i+1])})
		}
		return out
	}
	mapped := &broker.Envelope{ID: "header:message-id", Type: "json:kind", Key: "json:order"}
	for name, c := range map[string]struct {
		envelope  *broker.Envelope
		record    kgo.Record
		id        string
		kind, key string
		fault     string
	}{
		"mapped": {mapped, kgo.Record{Headers: head("message-id", "1"),
			Value: []byte(`{"kind":"a","order":7}`)}, "1", "a", "7", ""},
		"mapped, Kafka's key": {mapped, kgo.Record{Key: []byte("k"), Headers: head("message-id", "1"),
			Value: []byte(`{"order":7}`)}, "1", "", "k", ""},
		"mapped, CloudEvents win": {mapped,
			kgo.Record{Headers: head("ce_specversion", "1.0", "ce_id", "ce", "ce_type", "b", "message-id",
				"1"), Value: []byte(`{"kind":"a"}`)}, "ce", "b", "", ""},
		"mapped, nothing there": {mapped, kgo.Record{Value: []byte(`{}`)}, "", "", "", ""},
		"mapped, no object": {mapped, kgo.Record{Headers: head("message-id", "1"), Value: []byte(`[1]`)},
			"", "", "", "not a JSON object"},
		"mapped, broken": {mapped, kgo.Record{Value: []byte(`{"kind"`)}, "", "", "",
			"not a JSON object"},
		"mapped, a list as type": {mapped, kgo.Record{Value: []byte(`{"kind":["a"]}`)}, "", "", "", ""},
		"mapped, binary id": {mapped, kgo.Record{Headers: head("message-id", "\xff"),
			Value: []byte(`{}`)}, "", "", "", "message-id"},
		"mapped, tombstone": {mapped, kgo.Record{Headers: head("message-id", "1")}, "1", "", "", ""},
		"another version": {nil, kgo.Record{Headers: head("ce_specversion", "0.3", "ce_id", "1")},
			"1", "", "", "ce_specversion"},
		"no time": {nil, kgo.Record{Headers: head("ce_specversion", "1.0", "ce_id", "1", "ce_time",
			"noon")}, "1", "", "", "ce_time"},
		"binary id": {nil, kgo.Record{Headers: head("ce_specversion", "1.0", "ce_id", "\xff")},
			"", "", "", "ce_id"},
		"NUL in the id": {nil, kgo.Record{Headers: head("ce_specversion", "1.0", "ce_id", "a\x00")},
			"", "", "", "ce_id"},
		"no id": {nil, kgo.Record{Headers: head("ce_specversion", "1.0", "ce_type", "t")},
			"", "t", "", ""},
		"nothing at all": {nil, kgo.Record{}, "", "", "", ""},
	} {
		m, fault := kafkabroker.Read(c.envelope, &c.record)
		if (fault != nil) != (c.fault != "") {
			t.Errorf("%s: fault %v", name, fault)
		}
		if c.fault != "" {
			names(t, fault, "envelope", c.fault)
			if len(m.Headers) != len(c.record.Headers) {
				t.Errorf("%s: %d headers of %d are left", name, len(m.Headers), len(c.record.Headers))
			}
			continue
		}
		if m.ID != c.id || m.Type != c.kind || string(m.Key) != c.key {
			t.Errorf("%s: read %+v", name, m)
		}
	}
}

// TestWhatKafkaCannotCarry is refused, each for its own reason, and keeps nothing but its key.
func TestWhatKafkaCannotCarry(t *testing.T) {
	fake := newFake(t)
	b := open(t, fake.seeds, &kafkabroker.Options{Envelope: &broker.Envelope{ID: "json:id"}})
	must(t, b.MakeTopics(t.Context(), 1, "t"))
	at := func(key, data string, headers ...skald.Header) skald.Message {
		return skald.Message{ID: key + data, Topic: "t", Key: []byte(key), Data: []byte(data),
			Headers: headers}
	}
	msgs := []skald.Message{
		at("a", `{"a":1}`), at("b", `{"b":1}`, skald.Header{Name: "\xff", Value: nil}), at("b", `{"b":2}`),
		at("c", `no object`), at("d", `{"d":1}`),
		{ID: "large", Topic: "t", Key: []byte("e"),
			Data: fmt.Appendf(nil, `{"e":%q}`, strings.Repeat("e", 2<<20))}, at("a", `{"a":2}`),
	}
	var pe *broker.PublishError
	if err := b.Publish(t.Context(), msgs).Wait(t.Context()); !errors.As(err, &pe) || len(pe.Refused) != 3 ||
		len(pe.Failed) != 1 || pe.Failed[2] == nil {
		t.Fatalf("got %v", err)
	}
	names(t, pe.Refused[1], `"t"`, "header", "UTF-8")
	names(t, pe.Refused[3], `"t"`, "JSON object")
	names(t, pe.Refused[5], `"t"`, "MESSAGE_TOO_LARGE", "bytes")
	sub, err := b.Subscribe(t.Context(), broker.Group{Name: "g", Topics: []string{"t"}})
	must(t, err)
	inOrder(t, sub, "t/0", `a{"a":1}`, `d{"d":1}`, `a{"a":2}`)
}
