package cloudevents_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/cloudevents"
)

// mapped returns m after encoding and decoding in a style with a mapped envelope.
func mapped(t *testing.T, style cloudevents.Style, e broker.Envelope,
	m skald.Message) (skald.Message, error) {
	t.Helper()
	codec, err := cloudevents.New(style).For(&e)
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{once: style.LastHeader}
	data, err := codec.Encode(&m, w)
	if err != nil {
		return m, err
	}
	got := skald.Message{Topic: m.Topic, Data: data}
	if style.Exact {
		got.Key = m.Key
	} else {
		slices.SortStableFunc(w.list, func(a, b skald.Header) int { return strings.Compare(a.Name, b.Name) })
		got.Data = append([]byte{}, data...)
	}
	fault := cloudevents.Decode(codec, w.list, at, &got, nil)
	if fault == nil {
		fault = codec.Fill(&got)
	}
	if fault != nil {
		t.Fatalf("fault %v of %+v", fault, got)
	}
	codec.Origin(&got, func() string { return "t/0/7" })
	return got, nil
}

// In every style id, type and key arrive unchanged: with other headers of the same name, with one place for
// two attributes, with an existing field, and with headers that the broker does not carry unchanged.
func TestEnvelopesComeBack(t *testing.T) {
	m := skald.Message{ID: "17", Source: "/s", Type: "placed", Topic: "t", Key: []byte("o1"),
		Data: []byte(`{"n":1}`)}
	of := func(set func(*skald.Message)) skald.Message {
		out := m
		set(&out)
		return out
	}
	for what, c := range map[string]struct {
		e         broker.Envelope
		m         skald.Message
		kind      string
		id, order string // expected id and key
	}{
		"nothing": {broker.Envelope{}, m, "", "", "o1"},
		"headers": {broker.Envelope{ID: "header:i", Type: "header:k", Key: "header:o"}, m,
			"placed", "17", "o1"},
		"fields": {broker.Envelope{ID: "json:i", Type: "json:k", Key: "json:o"}, m, "placed", "17", "o1"},
		"own header": {broker.Envelope{ID: "header:i"},
			of(func(m *skald.Message) { m.Headers = []skald.Header{{Name: "i", Value: []byte("18")}} }), "",
			"17", "o1"},
		"odd headers": {broker.Envelope{ID: "header:i"}, of(func(m *skald.Message) {
			m.Headers = []skald.Header{{Name: "z", Value: []byte("\x00")}, {Name: strings.Repeat("a", 30)}}
		}), "", "17", "o1"},
		"a field there": {broker.Envelope{ID: "json:i", Key: "json:n"},
			of(func(m *skald.Message) { m.Data = []byte(`{"i":42,"n":1}`) }), "", "42", "o1"},
		"its own field": {broker.Envelope{ID: "json:i", Key: "json:n"},
			of(func(m *skald.Message) { m.Key = []byte("1") }), "", "17", "1"},
		"one header": {broker.Envelope{ID: "header:i", Key: "header:i"}, m, "", "17", "o1"},
		"one field":  {broker.Envelope{ID: "json:i", Key: "json:i"}, m, "", "17", "o1"},
		"a raw key": {broker.Envelope{ID: "header:i"},
			of(func(m *skald.Message) { m.Key = []byte("\xff\x00") }), "", "17", "\xff\x00"},
		"an empty key": {broker.Envelope{ID: "header:i", Key: "header:o"},
			of(func(m *skald.Message) { m.Key = []byte{} }), "", "17", ""},
		"a tombstone": {broker.Envelope{ID: "header:i", Key: "json:o"},
			of(func(m *skald.Message) { m.Data = nil }), "", "17", "o1"},
		"one of fields": {broker.Envelope{ID: "json:i", Type: "json:k", Key: "json:o"},
			of(func(m *skald.Message) { m.Data = nil }), "placed", "17", "o1"},
		"an odd one": {broker.Envelope{ID: "json:i"},
			of(func(m *skald.Message) { m.ID, m.Data = "a % é", nil }), "", "a % é", "o1"},
		"the topic": {broker.Envelope{Type: "topic"}, of(func(m *skald.Message) { m.Type = "t" }),
			"t", "", "o1"},
		"by position": {broker.Envelope{ID: "position"}, m, "", "t/0/7", "o1"},
		"no JSON needed": {broker.Envelope{ID: "header:i", Key: "header:o"},
			of(func(m *skald.Message) { m.Data = []byte("\xff") }), "", "17", "o1"},
	} {
		for name, style := range styles() {
			got, err := mapped(t, style, c.e, c.m)
			if err != nil {
				t.Errorf("%s, %s: %v", name, what, err)
				continue
			}
			source := ""
			if c.id != "" {
				source = "t"
			}
			if got.ID != c.id || got.Type != c.kind || string(got.Key) != c.order ||
				(got.Key == nil) != (c.m.Key == nil) || (got.Data == nil) != (c.m.Data == nil) ||
				got.Source != source {
				t.Errorf("%s, %s: %+v\ncomes back as\n%+v", name, what, c.m, got)
			}
			for _, h := range c.m.Headers {
				if !slices.ContainsFunc(got.Headers, func(g skald.Header) bool { return g.Name == h.Name }) {
					t.Errorf("%s, %s: header %q is missing of %v", name, what, h.Name, got.Headers)
				}
			}
		}
	}
}

// A value that its place cannot carry unchanged is refused.
func TestEnvelopesThatCannotCarry(t *testing.T) {
	for what, c := range map[string]struct {
		e     broker.Envelope
		m     skald.Message
		exact bool // exact styles refuse it, too
	}{
		"another type": {broker.Envelope{Type: "topic"}, skald.Message{Topic: "t", Type: "placed"}, true},
		"no object": {broker.Envelope{ID: "json:i"},
			skald.Message{Topic: "t", ID: "17", Data: []byte("[1]")}, true},
		"not text": {broker.Envelope{Key: "json:o"},
			skald.Message{Topic: "t", Key: []byte("\xff"), Data: []byte("{}")}, true},
		"an id with NUL": {broker.Envelope{ID: "header:i"},
			skald.Message{Topic: "t", ID: "a\x00", Data: []byte("{}")}, false},
		"a key, no text": {broker.Envelope{Key: "header:o"},
			skald.Message{Topic: "t", Key: []byte("\xff"), Data: []byte("{}")}, false},
		"a null id": {broker.Envelope{ID: "json:i"},
			skald.Message{Topic: "t", ID: "17", Data: []byte(`{"i":null}`)}, true},
		"an id's object": {broker.Envelope{ID: "json:i"},
			skald.Message{Topic: "t", ID: "17", Data: []byte(`{"i":{"x":1}}`)}, true},
		"an empty type": {broker.Envelope{Type: "json:k"},
			skald.Message{Topic: "t", Type: "placed", Data: []byte(`{"k":""}`)}, true},
		"an unnamed head": {broker.Envelope{Key: "header:o"},
			skald.Message{Topic: "t", Headers: []skald.Header{{Name: "\xff"}}, Data: []byte("{}")}, true},
	} {
		for name, style := range styles() {
			if style.Exact && !c.exact {
				continue
			}
			if _, err := mapped(t, style, c.e, c.m); !errors.Is(err, cloudevents.ErrCannotCarry) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
}

// A field with text that encoding/json would change is a broken envelope, as in a header: otherwise two
// such messages could get one id.
func TestEnvelopeFieldThatIsNotText(t *testing.T) {
	for name, style := range styles() {
		codec, err := cloudevents.New(style).For(&broker.Envelope{ID: "json:id"})
		if err != nil {
			t.Fatal(err)
		}
		for _, data := range []string{"{\"id\":\"a\x80\"}", "{\"id\":\"a\xff\"}", `{"id":"a\ud800"}`,
			`{"id":"a\u0000"}`} {
			m := skald.Message{Topic: "t", Data: []byte(data)}
			if err := codec.Fill(&m); err == nil || m.ID != "" {
				t.Errorf("%s, %q: id %q, %v", name, data, m.ID, err)
			}
		}
		m := skald.Message{Topic: "t", Data: []byte(`{"id":"\ud83d\ude00"}`)}
		if err := codec.Fill(&m); err != nil || m.ID != "😀" {
			t.Errorf("%s: id %q, %v", name, m.ID, err)
		}
	}
}
