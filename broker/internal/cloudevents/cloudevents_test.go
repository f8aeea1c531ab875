package cloudevents_test

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/internal/cloudevents"
	"github.com/skald-go/skald/internal/column"
)

// wire is a broker's headers.
type wire struct {
	once bool
	list []skald.Header
}

func (w *wire) Text(name, value string) { w.Bytes(name, []byte(value)) }

func (w *wire) Bytes(name string, value []byte) {
	if w.once {
		w.list = slices.DeleteFunc(w.list, func(h skald.Header) bool { return h.Name == name })
	}
	w.list = append(w.list, skald.Header{Name: name, Value: value})
}

func (w *wire) Time(name string, value time.Time) { w.Text(name, value.Format(time.RFC3339Nano)) }

// styles returns one style of each kind: exact; sorted names and escaped values; one header of each name.
func styles() map[string]cloudevents.Style {
	return map[string]cloudevents.Style{
		"exact": {Prefixes: []string{"ce_"}, ContentType: "content-type", Exact: true},
		"escaped": {Prefixes: []string{"ce-"}, ContentType: "content-type", Escapes: true,
			Plain: func(h skald.Header) bool { return cloudevents.Printable(h.Name + string(h.Value)) }},
		"once": {Prefixes: []string{"a_", "a:"}, LastHeader: true,
			Plain: func(h skald.Header) bool { return len(h.Name) < 20 }},
	}
}

func at(h *skald.Header) (string, []byte) { return h.Name, h.Value }

// travel returns m after encoding and decoding in a style.
func travel(t *testing.T, style cloudevents.Style, m skald.Message) skald.Message {
	t.Helper()
	codec, w := cloudevents.New(style), &wire{once: style.LastHeader}
	if _, err := codec.Encode(&m, w); err != nil {
		t.Fatal(err)
	}
	got := skald.Message{Topic: m.Topic, Data: m.Data}
	if style.Exact {
		got.Key = m.Key
	} else {
		slices.SortStableFunc(w.list, func(a, b skald.Header) int {
			switch {
			case a.Name < b.Name:
				return -1
			case a.Name > b.Name:
				return 1
			}
			return 0
		})
		got.Data = append([]byte{}, m.Data...)
	}
	if err := cloudevents.Decode(codec, w.list, at, &got, nil); err != nil {
		t.Fatal(err)
	}
	return got
}

// In every style each message arrives unchanged: keys that are not text, no data, headers that repeat, are
// unsorted, or have names of the envelope.
func TestMessagesComeBack(t *testing.T) {
	full := skald.Message{ID: "größe 1%", Source: "/a b", Type: "t\"t", Topic: "t", Key: []byte("key ä"),
		Time:     time.Date(2026, 2, 3, 4, 5, 6, 700, time.UTC),
		Sequence: "7", ContentType: "a%20b", Subject: "s", Schema: "http://x/y", CorrelationID: "c",
		CausationID: "d", TraceParent: "00-1-2-03", Data: []byte("data")}
	odd := full
	odd.Key, odd.Data = []byte("\xff\x00"), nil
	odd.Headers = []skald.Header{{Name: "z", Value: []byte("\x00\xff")}, {Name: "a"},
		{Name: "z", Value: []byte{}}, {Name: "a long name, longer than some carry", Value: []byte("1")}}
	for i := range odd.Headers { // not every broker distinguishes nil from empty
		odd.Headers[i].Value = append([]byte{}, odd.Headers[i].Value...)
	}
	foreign := skald.Message{Topic: "t", Key: []byte{}, Data: []byte("x"),
		Headers: []skald.Header{{Name: "plain", Value: []byte("v")}}}
	for name, style := range styles() {
		for _, m := range []skald.Message{full, odd, foreign, {Topic: "t", Data: []byte{}}} {
			if got := travel(t, style, m); !reflect.DeepEqual(got, m) {
				t.Errorf("%s: %+v\ncomes back as\n%+v", name, m, got)
			}
		}
	}
}

// A message with any valid time can be stored and read back. An invalid time is a broken envelope.
func TestTimesOfOthers(t *testing.T) {
	for text, year := range map[string]int{
		"2026-02-03T04:05:06.789+05:45": 2026, "0001-01-01T00:00:00.5Z": 1, "9999-12-31T23:59:59Z": 9999,
		"0000-06-01T00:00:00Z": 0, "0001-01-01T00:00:00+00:01": 0, "9999-12-31T23:59:59-00:01": 0,
		"2026-02-03T04:05:06+24:00": -1, "2026-02-03T04:05:06-99:59": -1, "58865-01-01T00:00:00Z": 0, "": -1,
		"yesterday": 0,
	} {
		for name, style := range styles() {
			m := skald.Message{Topic: "t"}
			hs := []skald.Header{{Name: style.Prefixes[0] + "id", Value: []byte("1")},
				{Name: style.Prefixes[0] + "time", Value: []byte(text)}}
			fault := cloudevents.Decode(cloudevents.New(style), hs, at, &m, nil)
			if year >= 0 && (fault == nil) != (year > 0) {
				t.Errorf("%s: %q: fault %v", name, text, fault)
			}
			if year > 0 && m.Time.Year() != year {
				t.Errorf("%s: %q is read as %v", name, text, m.Time)
			}
			kept, err := column.EncodeMessage(&m)
			if err != nil {
				t.Errorf("%s: %q cannot be stored: %v", name, text, err)
				continue
			}
			if got, err := column.DecodeMessage(kept); err != nil || !reflect.DeepEqual(got, m) {
				t.Errorf("%s: %q: %+v\ncomes back as\n%+v, %v", name, text, m, got, err)
			}
		}
	}
}

// A broken attribute is a fault, and all headers stay unchanged. A header that is not text is a fault only
// if it belongs to the envelope.
func TestBrokenEnvelopes(t *testing.T) {
	for name, style := range styles() {
		for attribute, value := range map[string]string{"specversion": "0.3", "id": "\xff", "type": "a\x00"} {
			m := skald.Message{Topic: "t", Data: []byte("x")}
			hs := []skald.Header{{Name: style.Prefixes[0] + attribute, Value: []byte(value)},
				{Name: "own", Value: []byte("v")}}
			if fault := cloudevents.Decode(cloudevents.New(style), hs, at, &m, nil); fault == nil ||
				!reflect.DeepEqual(m.Headers, hs) {
				t.Errorf("%s: %s %q: %v, left %v", name, attribute, value, fault, m.Headers)
			}
		}
		if style.ContentType == "" {
			continue
		}
		m, hs := skald.Message{Topic: "t"}, []skald.Header{{Name: style.ContentType, Value: []byte("\xff")}}
		if fault := cloudevents.Decode(cloudevents.New(style), hs, at, &m, nil); fault != nil ||
			m.ContentType != "" || len(m.Headers) != 1 {
			t.Errorf("%s: a content type that is not text: %v, %+v", name, fault, m)
		}
	}
}

// TestUnreadableKey checks that a message whose key cannot be read has its other key or none, but no empty
// key.
func TestUnreadableKey(t *testing.T) {
	for name, style := range styles() {
		for _, key := range []string{"", "a"} {
			m, hs := skald.Message{Topic: "t"}, []skald.Header{{Name: cloudevents.RawKey, Value: []byte("%%%")}}
			if key != "" {
				hs = append(hs, skald.Header{Name: style.Prefixes[0] + "partitionkey", Value: []byte(key)})
			}
			fault := cloudevents.Decode(cloudevents.New(style), hs, at, &m, nil)
			if style.Escapes && (fault == nil || string(m.Key) != key || key == "" && m.Key != nil) {
				t.Errorf("%s: %v, key %q", name, fault, m.Key)
			}
		}
	}
}

// No broker can carry a header whose name is not text.
func TestNamesThatAreNotText(t *testing.T) {
	for name, style := range styles() {
		m := skald.Message{ID: "1", Topic: "t", Headers: []skald.Header{{Name: "\xff"}}}
		if _, err := cloudevents.New(style).Encode(&m, &wire{}); !errors.Is(err, cloudevents.ErrCannotCarry) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Each attribute has the header name of the CloudEvents bindings, because other clients use these names.
func TestNamesOnTheWire(t *testing.T) {
	m := skald.Message{ID: "i", Source: "s", Type: "t", Key: []byte("k"), Time: time.Unix(0, 0),
		Sequence: "n", ContentType: "c", Subject: "u", Schema: "d",
		CorrelationID: "r", CausationID: "a", TraceParent: "p"}
	w := &wire{}
	if _, err := cloudevents.New(styles()["exact"]).Encode(&m, w); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, h := range w.list {
		got[h.Name] = string(h.Value)
	}
	if want := map[string]string{"ce_specversion": "1.0", "ce_id": "i", "ce_source": "s", "ce_type": "t",
		"ce_partitionkey": "k", "ce_time": "1970-01-01T00:00:00Z",
		"ce_sequence": "n", "content-type": "c", "ce_subject": "u", "ce_dataschema": "d",
		"ce_correlationid": "r", "ce_causationid": "a", "ce_traceparent": "p"}; !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// Decoding an envelope that repeats the previous one allocates a string only for each changed text.
func TestSameTextsAreShared(t *testing.T) {
	codec := cloudevents.New(styles()["exact"])
	m := skald.Message{ID: "0198c0de-0000-7000-8000-000000000001", Source: "/bench/public/and/more",
		Type: "order.placed.and.paid.and.sent", Topic: "t", CorrelationID: "0198c0de-0000-7000-8000-0000000"}
	w := &wire{}
	if _, err := codec.Encode(&m, w); err != nil {
		t.Fatal(err)
	}
	var got skald.Message
	if n := testing.AllocsPerRun(100, func() {
		got = skald.Message{}
		_ = cloudevents.Decode(codec, w.list, at, &got, &m)
	}); n > 0 || got.Type != m.Type {
		t.Errorf("%v allocations for %+v", n, got)
	}
}
