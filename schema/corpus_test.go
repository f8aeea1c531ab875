package schema_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/skald-go/skald/schema"
	"github.com/skald-go/skald/schema/avro"
	"github.com/skald-go/skald/schema/jsonschema"
	"github.com/skald-go/skald/schema/protobuf"
)

// change is a change of a schema. back is true if new readers accept old payloads, and forth if old readers
// accept new payloads. says is a part of the text of the problem.
type change struct {
	name, before, after string
	back, forth         bool
	says                string
}

func avroRecord(fields string) string {
	return `{"type":"record","name":"P","fields":[{"name":"id","type":"string"}` + fields + `]}`
}

func avroChanges() []change {
	r := avroRecord
	amount := r(`,{"name":"amount","type":"long"}`)
	enum := func(symbols, more string) string {
		return r(`,{"name":"state","type":{"type":"enum","name":"S","symbols":[` + symbols + `]` +
			more + `}}`)
	}
	at := func(base, logical string) string {
		return r(`,{"name":"at","type":{"type":"` + base + `","logicalType":"` + logical + `"}}`)
	}
	many := func(unit string) string { // in a union, in a recursive record
		return r(`,{"name":"l","type":{"type":"array","items":{"type":"record","name":"n.R","fields":[{"name":"next","type":["null","R"],"default":null},` +
			`{"name":"at","type":["null",{"type":"long","logicalType":"timestamp-` + unit + `"}]}]}}}`)
	}
	return []change{
		{"nothing", amount, amount, true, true, ""},
		{"a field with a default comes", r(""), r(`,{"name":"method","type":"string","default":"card"}`),
			true, true, ""},
		{"a field without a default comes", r(""), amount, false, true, "amount"},
		{"a field without a default goes", amount, r(""), true, false, "amount"},
		{"a field gets another name", amount, r(`,{"name":"sum","type":"long"}`), false, false, "sum"},
		{"a field gets another name, and an alias", amount,
			r(`,{"name":"sum","type":"long","aliases":["amount"]}`), true, false, "amount"},
		{"int becomes long", r(`,{"name":"n","type":"int"}`), r(`,{"name":"n","type":"long"}`), true,
			false, "n"},
		{"long becomes string", amount, r(`,{"name":"amount","type":"string"}`), false, false, "amount"},
		{"string becomes bytes", r(`,{"name":"n","type":"string"}`), r(`,{"name":"n","type":"bytes"}`),
			true, true, ""},
		{"a field may be null", amount, r(`,{"name":"amount","type":["null","long"]}`), true,
			false, "amount"},
		{"a union gets a branch", r(`,{"name":"n","type":["null","long"]}`),
			r(`,{"name":"n","type":["null","long","string"]}`), true, false, "n"},
		{"an enum gets a symbol", enum(`"A"`, ""), enum(`"A","B"`, ""), true, false, `"B"`},
		{"an enum with a default gets a symbol", enum(`"A"`, `,"default":"A"`),
			enum(`"A","B"`, `,"default":"A"`), true, true, ""},
		{"fields change places", r(`,{"name":"a","type":"int"},{"name":"b","type":"long"}`),
			r(`,{"name":"b","type":"long"},{"name":"a","type":"int"}`), true, true, ""},
		{"the record gets another name", amount, strings.Replace(amount, `"P"`, `"Q"`, 1), false, false,
			"names do not match"},
		{"items change", r(`,{"name":"l","type":{"type":"array","items":"int"}}`),
			r(`,{"name":"l","type":{"type":"array","items":"string"}}`), false, false, "l.items"},
		{"milliseconds become microseconds", at("long", "timestamp-millis"), at("long", "timestamp-micros"),
			false, false, "at"},
		{"a date becomes a time", at("int", "date"), at("long", "timestamp-millis"), false, false, "at"},
		{"a time is no longer called one", at("long", "timestamp-millis"), r(`,{"name":"at","type":"long"}`),
			true, true, ""},
		{"milliseconds of many become microseconds", many("millis"), many("micros"), false, false,
			"l.items.at"},
		{"a decimal stays",
			r(`,{"name":"d","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}}`),
			r(`,{"name":"d","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}}`),
			true, true, ""},
		{"decimal gets another scale",
			r(`,{"name":"d","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}}`),
			r(`,{"name":"d","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":3}}`), false,
			false, "scale"},
	}
}

func protoFile(fields string) string {
	return "syntax = \"proto3\";\npackage p;\nmessage P {\n  string id = 1;\n" + fields + "}\n"
}

func protoChanges() []change {
	f := protoFile
	amount := f("int64 amount = 2;")
	closed := func(values string) string {
		return "syntax = \"proto2\";\nenum S { A = 0; " + values + "}\nmessage P { optional S state = 1; }\n"
	}
	return []change{
		{"nothing", amount, amount, true, true, ""},
		{"a field comes", f(""), amount, true, true, ""},
		{"a field comes under the number of another", amount, f("string method = 2;"), false, false,
			"P.method"},
		{"a field gets another name", amount, f("int64 sum = 2;"), true, true, ""},
		{"a field gets another number", amount, f("int64 amount = 3;"), false, false,
			"field has another number"},
		{"a field goes, its number is reserved", amount, f("reserved 2;"), true, true, ""},
		{"int32 becomes int64", f("int32 n = 2;"), f("int64 n = 2;"), true, false, "P.n"},
		{"int64 becomes sint64", amount, f("sint64 amount = 2;"), false, false, "sint64"},
		{"int32 becomes string", f("int32 n = 2;"), f("string n = 2;"), false, false, "string"},
		{"string becomes bytes", f("string n = 2;"), f("bytes n = 2;"), true, false, "P.n"},
		{"single becomes repeated", amount, f("repeated int64 amount = 2;"), false, false, "repeated"},
		{"optional comes to a field", amount, f("optional int64 amount = 2;"), true, true, ""},
		{"two fields move into a oneof", f("string a = 2; string b = 3;"),
			f("oneof x { string a = 2; string b = 3; }"), false, true, "P.x"},
		{"a oneof gets a field", f("oneof x { string a = 2; }"), f("oneof x { string a = 2; string b = 3; }"),
			true, true, ""},
		{"an open enum gets a value", f("S s = 2; enum S { A = 0; }"), f("S s = 2; enum S { A = 0; B = 1; }"),
			true, true, ""},
		{"a closed enum gets a value", closed(""), closed("B = 1; "), true, false, "closed enum"},
		{"values of an enum change places", f("S s = 2; enum S { N = 0; A = 1; B = 2; }"),
			f("S s = 2; enum S { N = 0; A = 2; B = 1; }"), false, false, "enum value has another number"},
		{"a nested message changes", f("M m = 2; message M { int32 n = 1; }"),
			f("M m = 2; message M { string n = 1; }"), false, false, "P.m.n"},
		{"a map gets other values", f("map<string, int32> m = 2;"), f("map<string, string> m = 2;"), false,
			false, "P.m"},
		{"a required field comes", "syntax = \"proto2\";\nmessage P { optional string id = 1; }\n",
			"syntax = \"proto2\";\nmessage P { optional string id = 1; required string n = 2; }\n", false,
			true, "requires"},
		{"the package changes", amount, strings.Replace(amount, "package p", "package q", 1), false, false,
			"no such message"},
		{"a message comes", amount, amount + "message Q {}\n", true, false, "p.Q"},
	}
}

func jsonObject(properties, more string) string {
	return `{"type":"object","properties":{"id":{"type":"string"}` + properties + `}` + more + `}`
}

func jsonChanges() []change {
	o := jsonObject
	amount := o(`,"amount":{"type":"integer"}`, "")
	tree := `{"$defs":{"T":{"type":"object","properties":{"n":{"type":"%s"},"kids":{"type":"array","items":{"anyOf":[{"$ref":"#/$defs/T"},{"type":"null"}]}}}}},"$ref":"#/$defs/T"}`
	return []change{
		{"nothing", amount, amount, true, true, ""},
		{"a property comes", o("", ""), amount, true, true, ""},
		{"a required property comes", o("", ""), o(`,"amount":{"type":"integer"}`, `,"required":["amount"]`),
			false, true, "$.amount"},
		{"a property is no longer required", o("", `,"required":["id"]`), o("", ""), true, false, "$.id"},
		{"a closed object gets a property", o("", `,"additionalProperties":false`),
			o(`,"amount":{"type":"integer"}`, `,"additionalProperties":false`), true, false, "$.amount"},
		{"integer becomes number", amount, o(`,"amount":{"type":"number"}`, ""), true, false, "$.amount"},
		{"integer becomes string", amount, o(`,"amount":{"type":"string"}`, ""), false, false, "$.amount"},
		{"a property may be null", amount, o(`,"amount":{"type":["integer","null"]}`, ""), true, false,
			"$.amount"},
		{"an enum gets a value", o(`,"s":{"enum":["a"]}`, ""), o(`,"s":{"enum":["a","b"]}`, ""), true,
			false, `"b"`},
		{"a bound is tightened", o(`,"n":{"type":"integer","minimum":0}`, ""),
			o(`,"n":{"type":"integer","minimum":1}`, ""), false, true, "minimum"},
		{"a length is loosened", o(`,"n":{"type":"string","maxLength":5}`, ""),
			o(`,"n":{"type":"string","maxLength":9}`, ""), true, false, "maxLength"},
		{"items change", o(`,"l":{"type":"array","items":{"type":"integer"}}`, ""),
			o(`,"l":{"type":"array","items":{"type":"string"}}`, ""), false, false, "$.l[]"},
		{"values of a map change", `{"type":"object","additionalProperties":{"type":"integer"}}`,
			`{"type":"object","additionalProperties":{"type":"string"}}`, false, false, "$.*"},
		{"an alternative comes", o(`,"v":{"oneOf":[{"type":"string"}]}`, ""),
			o(`,"v":{"oneOf":[{"type":"string"},{"type":"integer"}]}`, ""), true, false, "alternatives"},
		{"a tree stays", fmt.Sprintf(tree, "integer"), fmt.Sprintf(tree, "number"), true, false, "$.n"},
		{"a condition comes", o("", ""), o("", `,"if":{"required":["id"]},"then":{"required":["x"]}`), false,
			true, "cannot be decided"},
	}
}

// Each verdict names the field and the direction of the break.
func TestChanges(t *testing.T) {
	for format, changes := range map[schema.Format][]change{avro.Format{}: avroChanges(),
		protobuf.Format{}: protoChanges(), jsonschema.Format{}: jsonChanges()} {
		for _, c := range changes {
			t.Run(format.Name()+" "+c.name, func(t *testing.T) {
				before, after := schema.Schema{Format: format.Name(), Text: c.before},
					schema.Schema{Format: format.Name(), Text: c.after}
				back, err := format.Problems(after, before)
				if err != nil {
					t.Fatal(err)
				}
				forth, err := format.Problems(before, after)
				if err != nil {
					t.Fatal(err)
				}
				if (len(back) == 0) != c.back || (len(forth) == 0) != c.forth {
					t.Errorf("the new one reads the old one: %v, want %t; the old one reads the new one: %v, want %t", back, c.back, forth, c.forth)
				}
				if all := fmt.Sprint(slices.Concat(back, forth)); !strings.Contains(all, c.says) {
					t.Errorf("%s says nothing of %s", all, c.says)
				}
			})
		}
	}
}

// An invalid schema is an error, not a verdict.
func TestBrokenSchemas(t *testing.T) {
	for _, format := range []schema.Format{avro.Format{}, protobuf.Format{}, jsonschema.Format{}} {
		broken := schema.Schema{Format: format.Name(), Text: `{"type":`}
		if found, err := format.Problems(broken, broken); err == nil {
			t.Errorf("%s: %v", format.Name(), found)
		}
	}
}
