package complete

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
)

func fixed() Completer {
	n := 0
	return Completer{
		Now: func() time.Time {
			return time.Date(2026, 5, 1, 12, 0, 0, 123456789, time.FixedZone("", 7200))
		},
		NewID: func(time.Time) string { n++; return fmt.Sprint("id-", n) },
	}
}

func one(t *testing.T, c Completer, ctx context.Context, d skald.Draft) skald.Message {
	t.Helper()
	ms, err := c.Messages(ctx, []skald.Draft{d})
	if err != nil {
		t.Fatal(err)
	}
	return ms[0]
}

func TestMessages(t *testing.T) {
	headers := []skald.Header{{Name: "a", Value: []byte{0, 255}}, {Name: "a", Value: nil}}
	got, err := fixed().Messages(t.Context(), []skald.Draft{
		{Topic: "orders", Type: "order.placed", Key: []byte("k"), Subject: "s", Headers: headers,
			Value: map[string]int{"n": 1}},
		{Topic: "orders", Type: "order.gone", Key: []byte{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 5, 1, 10, 0, 0, 123456000, time.UTC)
	want := []skald.Message{
		{ID: "id-1", CorrelationID: "id-1", Type: "order.placed", Topic: "orders", Key: []byte("k"),
			Subject: "s", Time: at,
			ContentType: "application/json", Headers: headers, Data: []byte(`{"n":1}`)},
		{ID: "id-2", CorrelationID: "id-2", Type: "order.gone", Topic: "orders", Key: []byte{}, Time: at},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Messages = %+v\nwant %+v", got, want)
	}
	if got[1].Data != nil {
		t.Errorf("a draft without a value has data %q, want a tombstone", got[1].Data)
	}
}

func TestDefaults(t *testing.T) {
	before := time.Now().Truncate(time.Microsecond)
	m := one(t, Completer{}, t.Context(), skald.Draft{Topic: "t", Type: "a"})
	if m.Time.Before(before) || m.Time.After(time.Now()) || m.Time.Location() != time.UTC {
		t.Errorf("Time = %v, want now in UTC", m.Time)
	}
	if at, ok := uuid7.Time(m.ID); !ok || at.UnixMilli() != m.Time.UnixMilli() {
		t.Errorf("ID %s tells %v, want a UUID of version 7 of %v", m.ID, at, m.Time)
	}
}

func TestStamp(t *testing.T) {
	for _, c := range []struct {
		name                            string
		cause                           skald.Message
		correlation, causation, tracing string
	}{
		{"ours", skald.Message{ID: "m", CorrelationID: "first", TraceParent: "00-1-2-01"}, "first", "m",
			"00-1-2-01"},
		{"foreign", skald.Message{ID: "m"}, "m", "m", ""},
		{"foreign without an id", skald.Message{}, "id-1", "", ""},
		{"an id that no column holds", skald.Message{ID: "a\x00b"}, "id-1", "", ""},
		{"an id that is not text", skald.Message{ID: "\xff", CorrelationID: "first"}, "first", "", ""},
		{"a correlation over two lines", skald.Message{ID: "m", CorrelationID: "a\r\nb: c",
			TraceParent: "x\ny"}, "m", "m", ""},
		{"endless ids", skald.Message{ID: strings.Repeat("x", MaxKey+1),
			CorrelationID: strings.Repeat("x", MaxKey)}, strings.Repeat("x", MaxKey), "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := one(t, fixed(), skald.WithCause(t.Context(), c.cause), skald.Draft{Topic: "t", Type: "a"})
			if m.CorrelationID != c.correlation || m.CausationID != c.causation ||
				m.TraceParent != c.tracing {
				t.Errorf("stamped %q, %q, %q, want %q, %q, %q", m.CorrelationID, m.CausationID, m.TraceParent,
					c.correlation, c.causation, c.tracing)
			}
		})
	}
}

// named is a codec that leaves its name in the data.
type named string

func (n named) Encode(_ context.Context, m *skald.Message, _ any) error {
	m.Data, m.ContentType, m.Schema = []byte(n), "text/plain", "urn:"+string(n)
	return nil
}
func (named) Decode(context.Context, skald.Message, any) error { return nil }

func TestCodec(t *testing.T) {
	for _, c := range []struct {
		name             string
		own, draft       skald.Codec
		data, typ, schem string
	}{
		{"none", nil, nil, "1", "application/json", ""},
		{"the outbox's", named("own"), nil, "own", "text/plain", "urn:own"},
		{"the draft's", named("own"), named("draft"), "draft", "text/plain", "urn:draft"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := one(t, Completer{Codec: c.own}, t.Context(),
				skald.Draft{Topic: "t", Type: "a", Value: 1, Codec: c.draft})
			if string(m.Data) != c.data || m.ContentType != c.typ || m.Schema != c.schem {
				t.Errorf("got %q, %q, %q", m.Data, m.ContentType, m.Schema)
			}
		})
	}
}

// asking is a codec whose registry is away.
type asking struct{ why error }

func (a asking) Encode(ctx context.Context, _ *skald.Message, _ any) error {
	return errors.Join(a.why, ctx.Err())
}
func (asking) Decode(context.Context, skald.Message, any) error { return nil }

func TestCodecFails(t *testing.T) {
	away := errors.New("registry away")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got, err := Completer{Codec: asking{away}}.Messages(ctx, []skald.Draft{
		{Topic: "t", Type: "a", Value: 1, Codec: named("x")}, {Topic: "t", Type: "b", Value: 1},
	})
	if got != nil || !errors.Is(err, away) || !errors.Is(err, context.Canceled) ||
		!strings.Contains(err.Error(), `encode b for topic "t"`) {
		t.Errorf("Messages = %v, %v", got, err)
	}
	if _, err := (Completer{}).Messages(t.Context(),
		[]skald.Draft{{Topic: "t", Type: "a", Value: make(chan int)}}); err == nil {
		t.Error("a channel was encoded as JSON")
	}
}

// A codec's own attributes keep the limits too.
type loose struct{ typ, schema string }

func (l loose) Encode(_ context.Context, m *skald.Message, _ any) error {
	m.Data, m.ContentType, m.Schema = []byte("x"), l.typ, l.schema
	return nil
}
func (loose) Decode(context.Context, skald.Message, any) error { return nil }

func TestCodecBreaksLimits(t *testing.T) {
	for _, l := range []loose{{"text/plain\r\nx: y", ""}, {"text/plain", "urn:\x00"},
		{strings.Repeat("x", MaxType+1), ""}, {"text/plain", strings.Repeat("x", MaxKey+1)}} {
		_, err := Completer{Codec: l}.Messages(t.Context(), []skald.Draft{{Topic: "t", Type: "a", Value: 1}})
		if limit := new(store.LimitError); !errors.As(err, &limit) {
			t.Errorf("a codec that says %.20q, %.20q = %v, want a LimitError", l.typ, l.schema, err)
		}
	}
}

func TestLimits(t *testing.T) {
	headers := func(name, value int) []skald.Header {
		return []skald.Header{{Name: strings.Repeat("n", name), Value: make([]byte, value)}}
	}
	for _, c := range []struct {
		name string
		set  func(*skald.Message)
		want string // empty: allowed
	}{
		{"plain", func(*skald.Message) {}, ""},
		{"longest topic", func(m *skald.Message) { m.Topic = strings.Repeat("t", 249) }, ""},
		{"topic too long", func(m *skald.Message) { m.Topic = strings.Repeat("t", 250) }, "a topic is"},
		{"all of a topic", func(m *skald.Message) { m.Topic = "azAZ09._-" }, ""},
		{"no topic", func(m *skald.Message) { m.Topic = "" }, "a topic is"},
		{"a topic with a space", func(m *skald.Message) { m.Topic = "a b" }, "a topic is"},
		{"a topic with a slash", func(m *skald.Message) { m.Topic = "a/b" }, "a topic is"},
		{"a topic beyond ASCII", func(m *skald.Message) { m.Topic = "ordré" }, "a topic is"},
		{"no type", func(m *skald.Message) { m.Type = "" }, "a type is"},
		{"longest type", func(m *skald.Message) { m.Type = strings.Repeat("t", 255) }, ""},
		{"type too long", func(m *skald.Message) { m.Type = strings.Repeat("t", 256) }, "a type is"},
		{"a type over two lines", func(m *skald.Message) { m.Type = "a\nb" }, "a type is"},
		{"a type that is not text", func(m *skald.Message) { m.Type = "\xff" }, "a type is"},
		{"longest key", func(m *skald.Message) { m.Key = make([]byte, 1024) }, ""},
		{"key too long", func(m *skald.Message) { m.Key = make([]byte, 1025) }, "the key is 1025 bytes"},
		{"largest data", func(m *skald.Message) { m.Data = make([]byte, 921600) }, ""},
		{"data too large", func(m *skald.Message) { m.Data = make([]byte, 921601) },
			"data is 921601 bytes, at most 921600"},
		{"largest headers", func(m *skald.Message) { m.Headers = headers(128, 16384-128) }, ""},
		{"headers too large", func(m *skald.Message) { m.Headers = headers(128, 16385-128) },
			"headers are 16385 bytes"},
		{"header name too long", func(m *skald.Message) { m.Headers = headers(129, 0) }, "header name"},
		{"header without a name", func(m *skald.Message) { m.Headers = headers(0, 1) }, "header name"},
		{"header name with a colon", func(m *skald.Message) { m.Headers = []skald.Header{{Name: "a:b"}} },
			"other characters"},
		{"subject too long", func(m *skald.Message) { m.Subject = strings.Repeat("s", 1025) },
			"a subject is"},
		{"a subject with a zero", func(m *skald.Message) { m.Subject = "\x00" }, "a subject is"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := skald.Message{Topic: "orders", Type: "order.placed", Data: bytes.Repeat([]byte("x"), 10)}
			c.set(&m)
			err := Limits(&m)
			limit := new(store.LimitError)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("Limits = %v", err)
			case c.want != "" && (!errors.As(err, &limit) || !strings.Contains(limit.What, c.want)):
				t.Errorf("Limits = %v, want %q", err, c.want)
			case c.want != "" && (limit.Topic != m.Topic || limit.Type != m.Type):
				t.Errorf("the error names %q on %q", limit.Type, limit.Topic)
			}
		})
	}
}
