package schema_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/schema"
	"github.com/skald-go/skald/schema/avro"
	"github.com/skald-go/skald/schema/jsonschema"
	"github.com/skald-go/skald/schema/protobuf"
	"github.com/skald-go/skald/store/memstore"
)

// In each language and from each place, old and new programs read each other's payloads.
func TestRoll(t *testing.T) {
	b := newBed(t)
	for name, versions := range builds(t) {
		for place, at := range map[string]schema.Place{"header": schema.InHeader, "prefix": schema.InPrefix} {
			t.Run(name+" in "+place, func(t *testing.T) {
				o := &schema.Options{Place: at, Subject: name + place}
				for w, writer := range versions {
					m := written(t, writer.codec(b.registry(t, nil), o), writer.value("o1", 1<<60, "card"))
					for r, reader := range versions {
						order, amount, method, err := reader.read(t.Context(),
							reader.codec(b.registry(t, nil), &schema.Options{}), m)
						if err != nil {
							t.Fatalf("version %d reads version %d: %v", r+1, w+1, err)
						}
						want := [2][2]string{{"", ""}, {"unknown", "card"}}[r][w]
						if name == "protobuf" && r == 1 && w == 0 {
							want = ""
						}
						if order != "o1" || amount != 1<<60 || method != want {
							t.Errorf("version %d reads %q %d %q of version %d, want the method %q", r+1,
								order, amount, method, w+1, want)
						}
					}
				}
			})
		}
	}
}

// The id is encoded as Confluent's serializers do.
func TestPlaces(t *testing.T) {
	b := newBed(t)
	versions := builds(t)
	header := func(m skald.Message) []byte {
		i := slices.IndexFunc(m.Headers, func(h skald.Header) bool { return h.Name == "__value_schema_id" })
		if i < 0 {
			return nil
		}
		return m.Headers[i].Value
	}
	m := written(t, versions["json"][0].codec(b.registry(t, nil), nil), payment1{"o1", 7})
	if h := header(m); len(h) != 17 || h[0] != 1 || string(m.Data) != `{"order":"o1","amount":7}` ||
		m.ContentType != "application/json" {
		t.Errorf("JSON with a header travels as %v, %q of type %q", h, m.Data, m.ContentType)
	}
	o := &schema.Options{Place: schema.InPrefix}
	if m := written(t, versions["avro"][0].codec(b.registry(t, nil), o),
		payment1{"o1", 7}); string(m.Data) != "\x00\x00\x00\x00\x02\x04o1\x0e" || header(m) != nil {
		t.Errorf("Avro with a prefix travels as %q, %v", m.Data, m.Headers)
	}
	// The second message of its file has the index [1], encoded as 2, 2: one number, which is 1.
	if m := written(t, versions["protobuf"][0].codec(b.registry(t, nil), o),
		versions["protobuf"][0].value("o1", 7, "")); !strings.HasPrefix(string(m.Data),
		"\x00\x00\x00\x00\x03\x02\x02\x0a\x02o1") {
		t.Errorf("Protobuf with a prefix travels as %q", m.Data)
	}
	if m := written(t, versions["protobuf"][0].codec(b.registry(t, nil), nil),
		versions["protobuf"][0].value("o1", 7, "")); len(header(m)) != 19 ||
		string(m.Data) != "\x0a\x02o1\x10\x07" {
		t.Errorf("Protobuf with a header travels as %v, %q", header(m), m.Data)
	}
}

// A handler that copies headers does not copy the schema id of another payload.
func TestHeaderOfAnotherMessage(t *testing.T) {
	b := newBed(t)
	for place, at := range map[string]schema.Place{"header": schema.InHeader, "prefix": schema.InPrefix} {
		t.Run(place, func(t *testing.T) {
			c := avro.CodecOf[payment1](b.registry(t, nil), avro1, &schema.Options{Place: at})
			came := []skald.Header{{Name: "a", Value: []byte("1")},
				{Name: schema.Header, Value: []byte{0, 0, 0, 0, 99}}, {Name: "b"}}
			m := skald.Message{Topic: "payments", Type: "payment.processed", Headers: came}
			if err := c.Encode(t.Context(), &m, payment1{"o1", 7}); err != nil {
				t.Fatal(err)
			}
			var v payment1
			if err := c.Decode(t.Context(), m, &v); err != nil || v.Order != "o1" ||
				m.Headers[0].Name != "a" || m.Headers[1].Name != "b" {
				t.Errorf("%+v, %v with the headers %v", v, err, m.Headers)
			}
			if came[1].Name != schema.Header {
				t.Error("the headers of the draft were changed")
			}
		})
	}
}

// The cause of a decoding error decides whether the message is parked or becomes a dead letter.
func TestVerdicts(t *testing.T) {
	b := newBed(t)
	type number struct{ N int32 }
	// gets id 1
	_ = written(t, avro.Codec[number](b.registry(t, nil), &schema.Options{Subject: "numbers"}), number{1})
	_, _, err := b.fake.RegisterSchema("json", sr.Schema{Type: sr.TypeJSON, Schema: "{}"})
	if err != nil {
		t.Fatal(err)
	}
	whole := written(t, avro.CodecOf[payment1](b.registry(t, nil), avro1,
		&schema.Options{Place: schema.InPrefix}), payment1{"o1", 7})
	id := func(n byte, rest ...byte) skald.Message {
		return skald.Message{Data: append([]byte{0, 0, 0, 0, n}, rest...)}
	}
	head := func(v ...byte) skald.Message {
		return skald.Message{Data: []byte("\x04o1\x0e"),
			Headers: []skald.Header{{Name: schema.Header, Value: v}}}
	}
	for name, c := range map[string]struct {
		m    skald.Message
		want failure.Class
		says string
	}{
		"whole":          {whole, "", ""},
		"unknown number": {id(99), failure.UnknownVersion, "does not have schema 99"},
		"unknown GUID":   {head(append([]byte{1}, make([]byte, 15)...)...), failure.Malformed, "16 bytes"},
		"GUID of nobody": {head(append([]byte{1, 9}, make([]byte, 15)...)...), failure.UnknownVersion,
			"09000000-0000-0000-0000-000000000000"},
		"another subject": {id(1, 2), failure.UnknownVersion, "record names do not match"},
		"another language": {id(2, '{', '}'), failure.UnknownVersion,
			"it is in JSON, and this codec reads AVRO"},
		"no id": {skald.Message{Data: []byte(`{"order":"o1"}`)}, failure.Malformed,
			"it has no schema id"},
		"nothing": {skald.Message{Data: []byte{}}, failure.Malformed, "it has no schema id"},
		"cut short": {skald.Message{Data: whole.Data[:len(whole.Data)-1]}, failure.Malformed,
			"written with schema 3"},
		"not UTF-8": {skald.Message{Data: bytes.Replace(whole.Data, []byte("o1"), []byte("\xff\xfe"), 1)},
			failure.Malformed, "not UTF-8"},
		"something follows": {skald.Message{Data: append(slices.Clone(whole.Data), 1)}, failure.Malformed,
			"1 bytes follow"},
		"broken header": {head(7, 7), failure.Malformed, "header __value_schema_id of 2 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			var v payment1
			err := avro.CodecOf[payment1](b.registry(t, nil), avro1, nil).Decode(t.Context(), c.m, &v)
			if err == nil && c.want == "" {
				return
			}
			if class := failure.Of(&failure.MalformedError{Err: err}); class != c.want ||
				!strings.Contains(err.Error(), c.says) {
				t.Errorf("%v: %v, want %v, about %q", class, err, c.want, c.says)
			}
		})
	}
}

// No error contains the payload.
func TestErrorsKeepPayloads(t *testing.T) {
	b := newBed(t)
	secret := `{"order":"4711 0815","amount":"5 secret"}`
	for name, versions := range builds(t) {
		var v payment1
		m := skald.Message{Data: []byte(secret)}
		if name != "json" {
			m = written(t, versions[0].codec(b.registry(t, nil), nil), versions[0].value("o1", 7, ""))
			m.Data = []byte(secret)
		}
		_, _, _, err := versions[0].read(t.Context(), versions[0].codec(b.registry(t, nil), nil), m)
		if err == nil || strings.Contains(err.Error(), "4711") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, %+v", name, err, v)
		}
	}
}

// An unavailable registry is an outage, but only for ids that need it.
func TestRegistryUnavailable(t *testing.T) {
	b := newBed(t)
	payments := func(r *schema.Registry) skald.Event[payment2] {
		return skald.Event[payment2]{Topic: "payments", Type: "payment.processed",
			Codec: avro.CodecOf[payment2](r, avro2, nil)}
	}
	writers, db := b.registry(t, nil), memstore.New(nil)
	warm := payments(writers)
	if err := writers.Warm(t.Context(), warm); err != nil {
		t.Fatal(err)
	}
	asked := b.asked.Load()
	b.away.Store(true)
	m := written(t, warm.Codec, payment2{"o1", 7, "card"})
	if now := b.asked.Load(); now != asked {
		t.Errorf("the registry was asked %d times by a writer that is warm", now-asked)
	}
	cold := payments(b.registry(t, db))
	if err := cold.Codec.Encode(t.Context(), &skald.Message{Topic: "payments", Type: "payment.processed"},
		payment2{}); !failure.IsOutage(err) {
		t.Errorf("a writer that is not warm: %v", err)
	}
	if _, err := cold.Decode(t.Context(), m); !failure.IsOutage(err) {
		t.Errorf("a reader that does not know the schema: %v", err)
	}
	b.away.Store(false)
	for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C {
		got, err := cold.Decode(t.Context(), m)
		if err == nil && got.Value.Method == "card" {
			break
		}
		if err == nil || !failure.IsOutage(err) {
			t.Fatalf("the registry is back: %+v, %v", got.Value, err)
		}
	}
	asked = b.asked.Load()
	for range 10 {
		if _, err := cold.Decode(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	if now := b.asked.Load(); now != asked {
		t.Errorf("the registry was asked %d times for what is known", now-asked)
	}
}

// Years later another process of the consumer reads a stored schema without a registry.
func TestKept(t *testing.T) {
	b := newBed(t)
	for name, versions := range builds(t) {
		t.Run(name, func(t *testing.T) {
			db := memstore.New(nil)
			m := written(t, versions[1].codec(b.registry(t, nil), &schema.Options{Subject: name}),
				versions[1].value("o1", 7, "card"))
			if _, _, _, err := versions[1].read(t.Context(), versions[1].codec(b.registry(t, db), nil),
				m); err != nil {
				t.Fatal(err)
			}
			var later schema.Registry
			if err := later.Connect(schema.Config{Store: db}); err != nil {
				t.Fatal(err)
			}
			read, err := schema.Readable(t.Context(), db, "", m, avro.Format{}, protobuf.Format{},
				jsonschema.Format{})
			if err != nil || !strings.Contains(string(read), "card") || !json.Valid(read) {
				t.Errorf("for people it is %s, %v", read, err)
			}
			for _, reader := range versions {
				if order, amount, _, err := reader.read(t.Context(), reader.codec(&later, nil),
					m); err != nil || order != "o1" || amount != 7 {
					t.Errorf("%q, %d, %v", order, amount, err)
				}
			}
		})
	}
}

// A payload is read although its schema cannot be stored. A later message stores it.
func TestKeptLater(t *testing.T) {
	b := newBed(t)
	db := &failing{Store: memstore.New(nil)}
	db.fails.Store(true)
	m := written(t, avro.CodecOf[payment1](b.registry(t, nil), avro1,
		&schema.Options{Place: schema.InPrefix}), payment1{"o1", 7})
	c := avro.CodecOf[payment1](b.registry(t, db), avro1, nil)
	var v payment1
	if err := c.Decode(t.Context(), m, &v); err != nil || v.Amount != 7 {
		t.Fatal(v, err)
	}
	db.fails.Store(false)
	for tick := time.NewTicker(10 * time.Millisecond); ; <-tick.C {
		if err := c.Decode(t.Context(), m, &v); err != nil {
			t.Fatal(err)
		}
		kept, err := db.PayloadSchema(t.Context(), "", "1")
		if err != nil {
			t.Fatal(err)
		}
		if kept != "" {
			break
		}
	}
}

// failing is a database that returns an error from KeepPayloadSchema.
type failing struct {
	*memstore.Store
	fails atomic.Bool
}

func (f *failing) KeepPayloadSchema(ctx context.Context, registry, id, definition string) error {
	if f.fails.Load() {
		return errors.New("no space left")
	}
	return f.Store.KeepPayloadSchema(ctx, registry, id, definition)
}

// Tombstones and messages of another serializer, as during a migration to schemas.
func TestPlainPayloads(t *testing.T) {
	b := newBed(t)
	for _, name := range []string{"json", "protobuf"} {
		old := builds(t)[name][0]
		m := written(t, old.codec(b.registry(t, nil), nil), old.value("o1", 7, ""))
		m.Headers = nil
		if order, amount, _, err := old.read(t.Context(), old.codec(b.registry(t, nil), nil),
			m); err != nil || order != "o1" || amount != 7 {
			t.Errorf("%s: %q, %d, %v", name, order, amount, err)
		}
	}
	e := skald.Event[payment1]{Codec: avro.CodecOf[payment1](b.registry(t, nil), avro1, nil)}
	if got, err := e.Decode(t.Context(), skald.Message{}); err != nil || got.Value != (payment1{}) {
		t.Errorf("a tombstone: %+v, %v", got.Value, err)
	}
}

func TestNotConnected(t *testing.T) {
	var r schema.Registry
	c := avro.CodecOf[payment1](&r, avro1, nil)
	if err := c.Encode(t.Context(), &skald.Message{}, payment1{}); !errors.Is(err, schema.ErrNotConnected) {
		t.Error(err)
	}
	if err := r.Connect(schema.Config{}); err == nil {
		t.Error("it connects to nothing")
	}
}

// Without Register, writing an unregistered schema fails with an error that names the remedy.
func TestNotRegistered(t *testing.T) {
	b := newBed(t)
	var r schema.Registry
	if err := r.Connect(schema.Config{Client: b.client(t)}); err != nil {
		t.Fatal(err)
	}
	err := avro.CodecOf[payment1](&r, avro1, nil).Encode(t.Context(),
		&skald.Message{Topic: "payments", Type: "payment.processed"}, payment1{})
	if err == nil || !strings.Contains(err.Error(), "payments-payment.processed") ||
		!strings.Contains(err.Error(), "skald schema push") || failure.IsOutage(err) {
		t.Error(err)
	}
}

// The schema of a Go type allows additional properties, at each depth.
func TestInferredJSON(t *testing.T) {
	type line struct{ Article string }
	type order struct {
		ID    string          `json:"id"`
		Lines []line          `json:"lines"`
		Named map[string]line `json:"named,omitempty"`
		First *line           `json:"first,omitempty"`
	}
	b := newBed(t)
	c := jsonschema.Codec[order](b.registry(t, nil), nil)
	m := written(t, c, order{ID: "o1"})
	m.Data = []byte(`{"id":"o1","more":1,"lines":[{"Article":"a","more":1}],"named":{"x":{"Article":"b","more":1}},"first":{"Article":"c","more":1}}`)
	var v order
	if err := c.Decode(t.Context(), m, &v); err != nil || v.Lines[0].Article != "a" ||
		v.Named["x"].Article != "b" || v.First.Article != "c" {
		t.Errorf("%+v, %v", v, err)
	}
	m.Data = []byte(`{"lines":[]}`)
	if err := c.Decode(t.Context(), m, &v); err == nil || !strings.Contains(err.Error(), "required") {
		t.Errorf("without its id: %v", err)
	}
}

// The imports of a generated file are registered as subjects of their names, and a reader finds them there.
func TestGenerated(t *testing.T) {
	b := newBed(t)
	c := protobuf.Codec[*collector.ExportTraceServiceRequest](b.registry(t, nil), nil)
	value := &collector.ExportTraceServiceRequest{ResourceSpans: []*trace.ResourceSpans{{SchemaUrl: "u"}}}
	m := written(t, c, value)
	for _, file := range []string{"opentelemetry/proto/common/v1/common.proto",
		"opentelemetry/proto/trace/v1/trace.proto"} {
		if !b.fake.SubjectExists(file) {
			t.Errorf("there is no subject %s", file)
		}
	}
	e := skald.Event[*collector.ExportTraceServiceRequest]{
		Codec: protobuf.Codec[*collector.ExportTraceServiceRequest](b.registry(t, memstore.New(nil)), nil)}
	got, err := e.Decode(t.Context(), m)
	if err != nil || !proto.Equal(got.Value, value) {
		t.Errorf("%v, %v", got.Value, err)
	}
	if err := c.Encode(t.Context(), &m, (*collector.ExportTraceServiceRequest)(nil)); err == nil {
		t.Error("nil was encoded")
	}
	other := protobuf.Codec[*collector.ExportTraceServiceResponse](b.registry(t, nil), nil)
	var v *collector.ExportTraceServiceResponse
	if err := other.Decode(t.Context(), m, &v); failure.Of(err) != failure.UnknownVersion {
		t.Errorf("another message of the file: %v", err)
	}
}

// A string that is not UTF-8 is not written, because other readers change or refuse it.
func TestAvroWritesOnlyUTF8(t *testing.T) {
	b := newBed(t)
	type text struct {
		T string
		B []byte
		L []string
		M map[string]string
		P *string
	}
	odd := "\xff"
	for _, v := range []text{{T: odd}, {L: []string{odd}}, {M: map[string]string{"a": odd}},
		{M: map[string]string{odd: "a"}}, {P: &odd}} {
		m := skald.Message{ID: "m1", Topic: "payments", Type: "payment.processed"}
		err := avro.Codec[text](b.registry(t, nil), nil).Encode(t.Context(), &m, v)
		if err == nil || !strings.Contains(err.Error(), "not UTF-8") {
			t.Errorf("%+v: %v", v, err)
		}
	}
	_ = written(t, avro.Codec[text](b.registry(t, nil), nil), text{T: "größe", B: []byte(odd)})
}
