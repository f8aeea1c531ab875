package schema_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/schema"
	"github.com/skald-go/skald/schema/jsonschema"
)

// A value that the writer may write and the reader refuses is a problem, wherever it is in the schemas. A
// schema has no problem with itself.
func TestJSONSchemasThatBreakTheReader(t *testing.T) {
	t.Parallel()
	f := jsonschema.Format{}
	of := func(text string) schema.Schema { return schema.Schema{Format: schema.JSON, Text: text} }
	defs := func(s, typ string) string {
		return strings.TrimSuffix(s, "}") + `,"$defs":{"s":{"$dynamicAnchor":"x","type":"` + typ + `"}}}`
	}
	a := func(s string) string { return `{"type":"object","properties":{"a":` + s + `}}` }
	for name, c := range map[string]struct{ reader, writer, data string }{
		"values of another type": {a(`{"type":"string"}`), a(`{"type":"integer","enum":[1,2]}`),
			`{"a":1}`},
		"a value of another type": {a(`{"type":"integer"}`), a(`{"const":"1"}`), `{"a":"1"}`},
		"a list among values": {a(`{"type":"array","items":{"type":"string"}}`), a(`{"enum":[[1]]}`),
			`{"a":[1]}`},
		"a bound beside a $ref": {defs(a(`{"$ref":"#/$defs/s","minLength":5}`), "string"),
			defs(a(`{"$ref":"#/$defs/s"}`), "string"), `{"a":"x"}`},
		"behind allOf": {defs(a(`{"allOf":[{"$ref":"#/$defs/s"}]}`), "string"),
			defs(a(`{"allOf":[{"$ref":"#/$defs/s"}]}`), "integer"), `{"a":1}`},
		"behind not": {defs(`{"not":{"$ref":"#/$defs/s"}}`, "string"),
			defs(`{"not":{"$ref":"#/$defs/s"}}`, "integer"), `"x"`},
		"behind prefixItems": {defs(`{"type":"array","prefixItems":[{"$ref":"#/$defs/s"}]}`, "string"),
			defs(`{"type":"array","prefixItems":[{"$ref":"#/$defs/s"}]}`, "integer"), `[1]`},
		"behind patternProperties": {defs(
			`{"type":"object","patternProperties":{"^x":{"$ref":"#/$defs/s"}}}`, "string"),
			defs(`{"type":"object","patternProperties":{"^x":{"$ref":"#/$defs/s"}}}`, "integer"), `{"x":1}`},
		"behind $dynamicRef": {defs(a(`{"$dynamicRef":"#x"}`), "string"),
			defs(a(`{"$dynamicRef":"#x"}`), "integer"), `{"a":1}`},
		"the writer's prefixItems": {`{"type":"array","items":{"type":"string"}}`,
			`{"type":"array","prefixItems":[{"type":"integer"}],"items":{"type":"string"}}`, `[1]`},
		"the writer's allOf": {a(`{"type":"string"}`),
			`{"type":"object","allOf":[{"properties":{"a":{"type":"integer"}}}]}`, `{"a":1}`},
		"the writer's patterns": {`{"type":"object","additionalProperties":false}`,
			`{"type":"object","patternProperties":{"^x":{}},"additionalProperties":false}`, `{"x1":1}`},
		"two alternatives take it": {`{"oneOf":[{"type":"integer"},{"type":"number"}]}`,
			`{"type":"integer"}`, `1`},
		"two alternatives, in part": {`{"oneOf":[{"type":"integer"},{"type":"number"}]}`,
			`{"type":"number"}`, `1`},
	} {
		if err := f.Verify(of(c.writer), []byte(c.data)); err != nil {
			t.Errorf("%s: the writer cannot write %s: %v", name, c.data, err)
		}
		if err := f.Verify(of(c.reader), []byte(c.data)); err == nil {
			t.Errorf("%s: the reader reads %s", name, c.data)
		}
		if found, err := f.Problems(of(c.reader), of(c.writer)); err != nil || len(found) == 0 {
			t.Errorf("%s: %v, %v", name, found, err)
		}
		for _, one := range []string{c.reader, c.writer} {
			if found, err := f.Problems(of(one), of(one)); err != nil || len(found) > 0 {
				t.Errorf("%s: %s against itself: %v, %v", name, one, found, err)
			}
		}
	}
	// Annotations next to a $ref are no problem, nor is a definition that another part uses.
	before := `{"type":"object","properties":{"a":{"$ref":"#/$defs/s","description":"old"},"b":{"allOf":[{"$ref":"#/$defs/s"}]}},"$defs":{"s":{"type":"string"}}}`
	after := `{"type":"object","properties":{"a":{"$ref":"#/$defs/s","description":"new"},"b":{"allOf":[{"$ref":"#/$defs/s"}]},"c":{"$ref":"#/$defs/t"}},"$defs":{"s":{"type":"string"},"t":{"type":"integer"}}}`
	if found, err := f.Problems(of(after), of(before)); err != nil || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
}

// A $ref that leads back to itself is an error and does not crash the process. A recursive tree is valid.
func TestJSONSchemaInACircle(t *testing.T) {
	t.Parallel()
	f := jsonschema.Format{}
	for text, ok := range map[string]bool{
		`{"$ref":"#"}`: false,
		`{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`:                 false,
		`{"properties":{"x":{"allOf":[{"$ref":"#/$defs/a"}]}},"$defs":{"a":{"not":{"$ref":"#/$defs/a"}}}}`: false,
		`{"properties":{"next":{"$ref":"#"}}}`:                                                             true,
	} {
		if err := f.Verify(schema.Schema{Format: schema.JSON, Text: text}, []byte(`{}`)); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}

type billed struct {
	Amount  int64              `json:"amount"`
	Address addressed          `json:"address"`
	More    map[string]billed2 `json:"more,omitempty"`
}

type (
	addressed struct {
		Country string `json:"country"`
	}
	billed2 struct {
		Country string `json:"country"`
	}
)

// Defaults are found through references, allOf and maps.
func TestDefaultsOfJSON(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	address := `{"type":"object","properties":{"country":{"type":"string","default":"DE"}}}`
	for name, c := range map[string]struct{ text, data, want string }{
		"a $ref": {`{"properties":{"address":{"$ref":"#/$defs/a"}},"$defs":{"a":` +
			address + `}}`, `{"address":{}}`, "0 DE "},
		"a $ref in allOf": {
			`{"properties":{"address":{"allOf":[{"$ref":"#/$defs/a"}]}},"$defs":{"a":` + address + `}}`,
			`{"address":{}}`, "0 DE "},
		"allOf": {
			`{"type":"object","allOf":[{"properties":{"amount":{"type":"integer","default":7}}}]}`,
			`{}`, "7  "},
		"a map": {`{"properties":{"more":{"additionalProperties":` + address + `}}}`,
			`{"more":{"x":{}}}`, "0  DE"},
		"a definition's own": {`{"properties":{"amount":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"integer","default":9007199254740993}}}`, `{}`, "9007199254740993  "},
		"another case": {`{"properties":{"amount":{"type":"integer","minimum":0}}}`,
			`{"amount":1,"AMOUNT":-5}`, "1  "},
		"another case, within": {`{"properties":{"address":` + address + `}}`,
			`{"address":{"country":"FR","Country":"XX"}}`, "0 FR "},
		"another case, not beside": {`{"properties":{"amount":{"type":"integer","minimum":0}}}`,
			`{"AMOUNT":-5}`, "0  "},
	} {
		codec := jsonschema.CodecOf[billed](b.registry(t, nil), c.text, nil)
		var v billed
		if err := codec.Decode(t.Context(), skald.Message{ID: "1", Data: []byte(c.data)}, &v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := fmt.Sprintf("%d %s %s", v.Amount, v.Address.Country, v.More["x"].Country); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
