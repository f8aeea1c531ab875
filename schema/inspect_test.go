package schema_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/schema"
	"github.com/skald-go/skald/schema/avro"
	"github.com/skald-go/skald/schema/jsonschema"
	"github.com/skald-go/skald/schema/protobuf"
	"github.com/skald-go/skald/store/memstore"
)

// In each language and from each place, Inspect finds whether a payload matches its schema, and whether the
// declared schema reads it.
func TestInspect(t *testing.T) {
	b := newBed(t)
	for name, versions := range builds(t) {
		for place, at := range map[string]schema.Place{"header": schema.InHeader, "prefix": schema.InPrefix} {
			t.Run(name+" in "+place, func(t *testing.T) {
				db := memstore.New(nil)
				o := &schema.Options{Place: at, Subject: name + " inspected in " + place}
				m := written(t, versions[1].codec(b.registry(t, nil), o), versions[1].value("o1", 7, "card"))
				var lock bytes.Buffer
				if err := schema.WriteLock(&lock, skald.Event[struct{}]{Topic: m.Topic, Type: m.Type,
					Codec: versions[0].codec(b.registry(t, nil), o)}); err != nil {
					t.Fatal(err)
				}
				declared, err := schema.ReadLock(&lock)
				if err != nil {
					t.Fatal(err)
				}
				inspected := func(m skald.Message, wrong string) {
					t.Helper()
					by := schema.Inspector{Kept: db, Lock: declared,
						Formats: []schema.Format{avro.Format{}, protobuf.Format{}, jsonschema.Format{}}}
					got, err := by.Inspect(t.Context(), m)
					if err != nil || got.ID == "" || got.Place != at && got.Wrong == "" ||
						(got.Wrong == "") != (wrong == "") || !strings.Contains(got.Wrong, wrong) {
						t.Errorf("%+v, %v, want %q", got, err, wrong)
					}
				}
				cut := m
				cut.Data = m.Data[:len(m.Data)-1]
				inspected(cut, "") // its schema is not stored
				if _, _, _, err := versions[1].read(t.Context(), versions[1].codec(b.registry(t, db), nil),
					m); err != nil {
					t.Fatal(err)
				}
				inspected(m, "")
				inspected(cut, map[string]string{"avro": "field payment_method", "json": "it is not JSON",
					"protobuf": "the payload does not match its schema"}[name])
				other, err := schema.ReadLock(strings.NewReader(
					`{"lock":1,"subjects":[{"subject":"s","events":["` + m.Topic + " " + m.Type +
						`"],"format":"` + map[bool]string{true: "JSON", false: "AVRO"}[name == "avro"] +
						`","schema":{"type":"string"}}]}`))
				if err != nil {
					t.Fatal(err)
				}
				declared = other
				inspected(m, "and the program declares it in ")
				m.Headers, m.Data = []skald.Header{{Name: schema.Header, Value: []byte("?")}}, nil
				inspected(m, "neither 0 and a number")
			})
		}
	}
}

// A payload without a schema id is checked against its content type and the declared schema.
func TestInspectPlain(t *testing.T) {
	for name, c := range map[string]struct{ declared, contentType, data, wrong string }{
		"JSON":    {"", "application/json", `{"a":1}`, ""},
		"no JSON": {"", "application/vnd.x+json; charset=utf-8", `{"a":1`, "it is not JSON"},
		"text":    {"", "text/plain", `{"a":1`, ""},
		"declared in JSON": {`"format":"JSON","schema":{"type":"object","required":["a"]}`,
			"application/json", `{"a":1}`, ""},
		"not as declared": {`"format":"JSON","schema":{"type":"object","required":["b"]}`,
			"application/json", `{"secret":1}`, "it does not match its schema"},
		"declared in Avro": {`"format":"AVRO","schema":"string"`, "application/avro", "\x02a",
			"cannot be read without a schema id"},
		"declared as proto": {`"format":"PROTOBUF","schema":["syntax = \"proto3\";"]`, "application/protobuf",
			"\x0a\x01a", ""},
	} {
		by := schema.Inspector{Formats: []schema.Format{avro.Format{}, protobuf.Format{},
			jsonschema.Format{}}}
		if c.declared != "" {
			var err error
			if by.Lock, err = schema.ReadLock(strings.NewReader(
				`{"lock":1,"subjects":[{"subject":"s","events":["t x"],` + c.declared + `}]}`)); err != nil {
				t.Fatal(name, err)
			}
		}
		got, err := by.Inspect(t.Context(), skald.Message{Topic: "t", Type: "x", ContentType: c.contentType,
			Data: []byte(c.data)})
		if err != nil || got.ID != "" || (got.Wrong == "") != (c.wrong == "") ||
			!strings.Contains(got.Wrong, c.wrong) || strings.Contains(got.Wrong, "secret") {
			t.Errorf("%s: %+v, %v, want %q", name, got, err, c.wrong)
		}
	}
}
