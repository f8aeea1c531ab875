package brokertest

import (
	"slices"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
)

// mapped creates a client with an envelope. It closes the client when the test ends.
func (s *suite) mapped(t *testing.T, e broker.Envelope) Broker {
	t.Helper()
	if s.Mapped == nil {
		t.Skip("the driver has no wire format")
	}
	b := s.Mapped(t, &e)
	t.Cleanup(func() { b.Close() })
	return b
}

// headerValues returns the values of all headers of m with that name.
func headerValues(m *skald.Message, name string) (out []string) {
	for _, h := range m.Headers {
		if h.Name == name {
			out = append(out, string(h.Value))
		}
	}
	return out
}

// testEnvelope checks that attributes are written to the places of another team and read from there. The key,
// the data and other headers stay unchanged.
func testEnvelope(t *testing.T, s *suite) {
	for name, c := range map[string]struct {
		e       broker.Envelope
		data    string // expected data at the broker
		headers map[string]string
	}{
		"headers": {broker.Envelope{ID: "header:message-id", Type: "header:event", Key: "header:order",
			Source: "/old"}, `{ "n": 1}`,
			map[string]string{"message-id": "17", "event": "order.placed", "order": "o1"}},
		"fields": {broker.Envelope{ID: "json:id", Type: "json:kind", Key: "json:order", Source: "/old"},
			`{"id":"17","kind":"order.placed","order":"o1", "n": 1}`, nil},
		"both": {broker.Envelope{ID: "header:message-id", Type: "json:kind", Source: "/old"},
			`{"kind":"order.placed", "n": 1}`, map[string]string{"message-id": "17"}},
	} {
		t.Run(name, func(t *testing.T) {
			b, plain := s.mapped(t, c.e), s.open(t)
			topic := s.topic(t, b, name, 1, "ours", "theirs")
			m := skald.Message{ID: "17", Source: "/new", Type: "order.placed", Topic: topic,
				Key: []byte("o1"), Data: []byte(`{ "n": 1}`),
				Headers: []skald.Header{{Name: "tenant", Value: []byte("acme")},
					{Name: "odd", Value: []byte{0, 0xff}}}}
			gone, bare := m, m
			gone.Data, gone.Headers = nil, nil
			bare.Key, bare.Headers = nil, nil
			bare.ID, gone.ID = "18", "19"
			publish(t, b, m, bare, gone)
			got := map[string]broker.Delivery{}
			for _, d := range s.join(t, b, "ours", topic).take(t, 3) {
				if d.Fault != nil {
					t.Fatalf("fault %v of %+v", d.Fault, d.Message)
				}
				if d.Data == nil {
					got["gone"] = d
				} else {
					got[d.ID] = d
				}
			}
			d := got["17"]
			if d.Type != "order.placed" || d.Source != "/old" || string(d.Key) != "o1" ||
				string(d.Data) != c.data ||
				!slices.Equal(headerValues(&d.Message, "tenant"), []string{"acme"}) ||
				!slices.Equal(headerValues(&d.Message, "odd"), []string{"\x00\xff"}) {
				t.Errorf("the message is read as %+v %q %q", d.Message, d.Key, d.Data)
			}
			for name, v := range c.headers {
				if !slices.Equal(headerValues(&d.Message, name), []string{v}) {
					t.Errorf("header %s is %q", name, headerValues(&d.Message, name))
				}
			}
			if d := got["18"]; d.Key != nil {
				t.Errorf("a message without a key has the key %q", d.Key)
			}
			if d, there := got["gone"]; !there || string(d.Key) != "o1" || d.ID != "19" ||
				d.Type != "order.placed" || d.Source != "/old" {
				t.Errorf("a tombstone is read as %+v", d.Message)
			}
			// a client without the envelope finds no CloudEvents headers, only the headers of the team
			for _, d := range s.join(t, plain, "theirs", topic).take(t, 3) {
				event := func(h skald.Header) bool {
					return len(h.Name) > len(s.Prefix) && h.Name[:len(s.Prefix)] == s.Prefix
				}
				if d.Fault != nil || d.Source != "" || slices.ContainsFunc(d.Headers, event) {
					t.Errorf("without the envelope: fault %v, %+v", d.Fault, d.Message)
				}
			}
		})
	}
}

// testEnvelopeOfOthers checks that messages of another team are read as far as possible, and CloudEvents
// completely. A message that cannot be read has a Fault, and is otherwise unchanged.
func testEnvelopeOfOthers(t *testing.T, s *suite) {
	b := s.mapped(t, broker.Envelope{ID: "header:message-id", Type: "json:kind", Key: "json:order"})
	topic := s.topic(t, b, "theirs", 1, "g")
	head := func(pairs ...string) (out []skald.Header) {
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, skald.Header{Name: pairs[i], Value: []byte(pairs[i+1])})
		}
		return s.asOnWire(out)
	}
	cases := []struct {
		r                     Record
		id, kind, key, source string
		fault                 bool
	}{
		{Record{Headers: head("message-id", "1"), Data: []byte(`{"kind":"a","order":7}`)}, "1", "a", "7",
			topic, false},
		{Record{Headers: head("message-id", "2"), Key: []byte("k"), Data: []byte(`{"order":7}`)},
			"2", "", "k", topic, false},
		{Record{Headers: head(s.Prefix+"specversion", "1.0", s.Prefix+"id", "ce", s.Prefix+"type", "b",
			s.Prefix+"source", "s", "message-id", "3"), Key: []byte("k"), Data: []byte{0xff}}, "ce", "b", "k",
			"s", false},
		{Record{Data: []byte(`{}`)}, "", "", "", "", false},
		{Record{Headers: head("message-id", "5")}, "5", "", "", topic, false},
		{Record{Headers: head("message-id", "6"), Data: []byte(`[1]`)}, "", "", "", "", true},
		{Record{Headers: head("message-id", "\xff"), Data: []byte(`{"kind":"a"}`)}, "", "", "", "", true},
	}
	for _, c := range cases {
		s.Foreign(t, topic, c.r)
	}
	for i, d := range s.join(t, b, "g", topic).take(t, len(cases)) {
		c := cases[i]
		switch {
		case c.fault && (d.Fault == nil || len(d.Headers) != 1 || string(d.Data) != string(c.r.Data)):
			t.Errorf("%d: fault %v, %+v", i, d.Fault, d.Message)
		case !c.fault && (d.Fault != nil || d.ID != c.id || d.Type != c.kind || string(d.Key) != c.key ||
			d.Source != c.source):
			t.Errorf("%d: fault %v, %+v of key %q", i, d.Fault, d.Message, d.Key)
		}
	}
}

// testTypeIsTopic checks an envelope with Type "topic": the type is the name of the topic, and a message of
// another type is refused.
func testTypeIsTopic(t *testing.T, s *suite) {
	b := s.mapped(t, broker.Envelope{ID: "header:message-id", Type: "topic"})
	topic := s.topic(t, b, "placed", 1, "g")
	m := skald.Message{ID: "1", Type: topic, Topic: topic, Key: []byte("k"), Data: []byte("d")}
	other := m
	other.ID, other.Type, other.Key = "2", "paid", []byte("l")
	pe := asPublishError(t, b.Publish(t.Context(), []skald.Message{m, other}).Wait(t.Context()))
	if len(pe.Refused) != 1 || pe.Refused[1] == nil || len(pe.Failed) > 0 {
		t.Errorf("got %v", pe)
	}
	d := s.join(t, b, "g", topic).take(t, 1)[0]
	if d.ID != "1" || d.Type != topic || d.Source != topic || string(d.Key) != "k" ||
		len(headerValues(&d.Message, "message-id")) != 1 {
		t.Errorf("got %+v, key %q", d.Message, d.Key)
	}
}
