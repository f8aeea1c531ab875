package brokertest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
)

// fullMessage returns a message with every attribute.
func fullMessage(topic string) skald.Message {
	return skald.Message{
		ID: "0198c0de-0000-7000-8000-000000000001", Source: "/orders/public", Type: "order.placed",
		Topic:   topic,
		Key:     []byte("order-1"),
		Time:    time.Date(2026, 11, 21, 10, 20, 30, 123456000, time.UTC),
		Subject: "ä subject", ContentType: "application/json", Schema: "https://example.org/schema/1",
		CorrelationID: "corr", CausationID: "cause",
		TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		Sequence:    "00000000000000000042",
		Headers: []skald.Header{
			{Name: "twice", Value: []byte("1")}, {Name: "binary", Value: []byte{0, 0xff, '\n', 0x80}},
			{Name: "twice", Value: []byte("2")}, {Name: "empty", Value: []byte{}},
			{Name: "twice", Value: []byte("1")},
		},
		Data: []byte(`{"total":12}`),
	}
}

func testFields(t *testing.T, s *suite) {
	b := s.open(t)
	topic := s.topic(t, b, "fields", 1, "g")
	bare := skald.Message{ID: "only-an-id", Topic: topic, Data: []byte("x")}
	unknown := fullMessage(topic)
	unknown.ID, unknown.Headers = "unknown", []skald.Header{{Name: "ce_dataref", Value: []byte("somewhere")},
		{Name: "Ce-Odd", Value: nil}}
	want := []skald.Message{fullMessage(topic), bare, unknown}
	publish(t, b, want...)
	sameAll(t, s.join(t, b, "g", topic).take(t, len(want)), want)
}

// testNames puts each character into names and values of headers. Each character has its own message, and one
// message has all characters.
func testNames(t *testing.T, s *suite) {
	b := s.open(t)
	topic := s.topic(t, b, "names", 1, "g")
	all := skald.Message{ID: "all", Source: "s", Type: "t", Topic: topic, Data: []byte("x")}
	var want []skald.Message
	for c := range rune(0x100) {
		h := skald.Header{Name: "a" + string(c) + "b", Value: []byte("a" + string(c) + "b")}
		all.Headers = append(all.Headers, h)
		want = append(want, skald.Message{ID: fmt.Sprintf("%x", c), Source: "s", Type: "t", Topic: topic,
			Data: []byte("x"), Headers: []skald.Header{h}})
	}
	want = append(want, all)
	publish(t, b, want...)
	sameAll(t, s.join(t, b, "g", topic).take(t, len(want)), want)
}

func testNil(t *testing.T, s *suite) {
	b := s.open(t)
	topic := s.topic(t, b, "nil", 1, "g")
	var want []skald.Message
	for i, key := range [][]byte{nil, {}, []byte("k"), {0, 0xff, 0xfe, '\r'}} {
		for j, data := range [][]byte{nil, {}, []byte("d"), {0, 0xff}} {
			want = append(want, skald.Message{ID: fmt.Sprint(i, "-", j), Source: "s", Type: "t", Topic: topic,
				Key: key, Data: data})
		}
	}
	publish(t, b, want...)
	sameAll(t, s.join(t, b, "g", topic).take(t, len(want)), want)
}

func testSizes(t *testing.T, s *suite) {
	b := s.open(t)
	topic := s.topic(t, b, "sizes", 1, "g")
	big := fullMessage(topic)
	big.Key = bytes.Repeat([]byte("k"), 1<<10)
	big.Headers = nil
	for i := range 16 {
		big.Headers = append(big.Headers, skald.Header{Name: fmt.Sprintf("h%02d", i),
			Value: bytes.Repeat([]byte{byte(i)}, 1020)})
	}
	big.Data = make([]byte, 900<<10)
	for i := range big.Data { // random, so that compression does not make it smaller
		big.Data[i] = byte(i * i >> 3 * 31 >> (i % 5))
	}
	small := fullMessage(topic)
	small.ID, small.Data = "small", []byte{7}
	want := []skald.Message{big, small}
	publish(t, b, want...)
	sameAll(t, s.join(t, b, "g", topic).take(t, len(want)), want)
}

func testForeign(t *testing.T, s *suite) {
	if s.Foreign == nil {
		t.Skip("the driver has no wire format")
	}
	b := s.open(t)
	topic := s.topic(t, b, "foreign", 1, "g")
	records := []Record{
		{Key: []byte{0, 1, 0xff}, Data: []byte("plain"), Headers: []skald.Header{
			{Name: "a", Value: []byte{0xff, 0}}, {Name: "", Value: []byte("no name")},
			{Name: "a", Value: []byte("again")},
			{Name: "traceparent", Value: []byte("of the hop")}}},
		{Key: nil, Data: nil},
		{Key: []byte{}, Data: []byte{}},
	}
	for i, r := range records {
		records[i].Headers = s.asOnWire(r.Headers)
		s.Foreign(t, topic, records[i])
	}
	for i, d := range s.join(t, b, "g", topic).take(t, len(records)) {
		r := records[i]
		mustEqual(t, d, skald.Message{Topic: topic, Key: r.Key, Data: r.Data, Headers: r.Headers})
	}
}

func testBrokenEnvelope(t *testing.T, s *suite) {
	if s.Foreign == nil {
		t.Skip("the driver has no wire format")
	}
	b := s.open(t)
	topic := s.topic(t, b, "broken", 1, "g")
	whole := func(name, value string) []skald.Header {
		name = s.Prefix + name
		hs := []skald.Header{{Name: s.Prefix + "specversion", Value: []byte("1.0")},
			{Name: s.Prefix + "id", Value: []byte("i")},
			{Name: s.Prefix + "source", Value: []byte("s")}, {Name: s.Prefix + "type", Value: []byte("t")},
			{Name: "x", Value: []byte{0xff}}}
		at := slices.IndexFunc(hs, func(h skald.Header) bool { return h.Name == name })
		if at < 0 {
			return s.asOnWire(append(hs, skald.Header{Name: name, Value: []byte(value)}))
		}
		hs[at].Value = []byte(value)
		return s.asOnWire(hs)
	}
	broken := [][]skald.Header{
		whole("specversion", "0.3"),
		whole("time", "yesterday"),
		whole("source", "\xff\xfe"),
		whole("type", "with\x00nul"),
	}
	for _, hs := range broken {
		s.Foreign(t, topic, Record{Key: []byte("k"), Data: []byte("d"), Headers: hs})
	}
	s.Foreign(t, topic, Record{Key: []byte("k"), Data: []byte("d"), Headers: whole("future", "1")})
	got := s.join(t, b, "g", topic).take(t, len(broken)+1)
	for i, hs := range broken {
		d := got[i]
		if d.Fault == nil || d.ID != "i" {
			t.Errorf("envelope %d: fault %v, id %q", i, d.Fault, d.ID)
		}
		if string(d.Key) != "k" || string(d.Data) != "d" || !slices.EqualFunc(d.Headers, hs, sameHeader) {
			t.Errorf("envelope %d was not kept as it came: %q %q %q", i, d.Key, d.Data, d.Headers)
		}
	}
	future := func(h skald.Header) bool { return h.Name == s.Prefix+"future" }
	if d := got[len(broken)]; d.Fault != nil || d.ID != "i" || len(d.Headers) != 2 ||
		!slices.ContainsFunc(d.Headers, future) {
		t.Errorf("an attribute of the future: fault %v, headers %q", d.Fault, d.Headers)
	}
}

// asOnWire returns hs in the form in which they arrive through the broker.
func (s *suite) asOnWire(hs []skald.Header) []skald.Header {
	if s.ByName {
		hs = slices.DeleteFunc(hs, func(h skald.Header) bool { return h.Name == "" })
		slices.SortStableFunc(hs, func(a, b skald.Header) int { return strings.Compare(a.Name, b.Name) })
	}
	if s.LastHeader {
		last := map[string]skald.Header{}
		for _, h := range hs {
			last[h.Name] = h
		}
		hs = slices.CompactFunc(hs, func(a, b skald.Header) bool { return a.Name == b.Name })
		for i := range hs {
			hs[i] = last[hs[i].Name]
		}
	}
	return hs
}

// sameAll compares messages with the same id, because messages without a key have no order.
func sameAll(t *testing.T, got []broker.Delivery, want []skald.Message) {
	t.Helper()
	for _, d := range got {
		at := slices.IndexFunc(want, func(m skald.Message) bool { return m.ID == d.ID })
		if at < 0 {
			t.Fatalf("a message %q that was not published", d.ID)
		}
		mustEqual(t, d, want[at])
	}
}

// mustEqual fails unless d equals want, byte for byte.
func mustEqual(t *testing.T, d broker.Delivery, want skald.Message) {
	t.Helper()
	got := d.Message
	if d.Fault != nil {
		t.Errorf("message %s: fault %v", want.ID, d.Fault)
	}
	if !got.Time.Equal(want.Time) {
		t.Errorf("message %s: time %v, want %v", want.ID, got.Time, want.Time)
	}
	if !slices.EqualFunc(got.Headers, want.Headers, sameHeader) {
		t.Errorf("message %s: headers %q, want %q", want.ID, got.Headers, want.Headers)
	}
	if !sameBytes(got.Key, want.Key) || !sameBytes(got.Data, want.Data) {
		t.Errorf(
			"message %s: key %q (nil %v), data of %d (nil %v); want key %q (nil %v), data of %d (nil %v)",
			want.ID,
			got.Key, got.Key == nil, len(got.Data), got.Data == nil, want.Key, want.Key == nil,
			len(want.Data), want.Data == nil)
	}
	for _, m := range []*skald.Message{&got, &want} {
		m.Time, m.Headers, m.Key, m.Data = time.Time{}, nil, nil, nil
	}
	if a, b := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); a != b {
		t.Errorf("got  %s\nwant %s", a, b)
	}
}

func sameHeader(a, b skald.Header) bool { return a.Name == b.Name && bytes.Equal(a.Value, b.Value) }

func sameBytes(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// numbered returns messages with the numbers first to last-1 and one key. Their ids are distinct.
func numbered(topic, key string, first, last int) (out []skald.Message) {
	for i := first; i < last; i++ {
		out = append(out, message(topic, key, i))
	}
	return out
}

func message(topic, key string, n int) skald.Message {
	id := fmt.Sprintf("%s-%06d", key, n)
	m := skald.Message{ID: id, Source: "/suite", Type: "numbered", Topic: topic, ContentType: "text/plain",
		Data: []byte(id)}
	if key != "" {
		m.Key = []byte(key)
	}
	return m
}
