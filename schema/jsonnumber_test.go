package schema_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	google "github.com/google/jsonschema-go/jsonschema"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/schema"
	"github.com/skald-go/skald/schema/jsonschema"
)

func jsonOf(text string) schema.Schema { return schema.Schema{Format: schema.JSON, Text: text} }

// Every amount with two decimals is a multiple of 0.01, and none with three.
func TestAmountsAreMultiples(t *testing.T) {
	t.Parallel()
	type bill struct {
		Amount json.Number `json:"amount"`
	}
	b := newBed(t)
	codec := jsonschema.CodecOf[bill](b.registry(t, nil), `{"properties":{"amount":{"multipleOf":0.01}}}`,
		nil)
	for cents := 0; cents < 142_858; cents += 53 {
		var v bill
		text := fmt.Sprintf("%d.%02d", cents/100, cents%100)
		m := skald.Message{Data: []byte(`{"amount":` + text + `}`)}
		if err := codec.Decode(t.Context(), m, &v); err != nil || string(v.Amount) != text {
			t.Fatalf("%s is read as %s, %v", text, v.Amount, err)
		}
		m.Data = []byte(`{"amount":` + text + `1}`)
		if err := codec.Decode(t.Context(), m, &v); err == nil {
			t.Fatalf("%s is a multiple of 0.01", m.Data)
		}
	}
}

// A number is read exactly, whatever its size and notation, or refused.
func TestNumbersOfJSON(t *testing.T) {
	t.Parallel()
	type box struct {
		N int64           `json:"n"`
		R json.RawMessage `json:"r"`
		L []uint32        `json:"l"`
	}
	b := newBed(t)
	for _, c := range []struct{ schema, data, want, says string }{
		{`{"properties":{"n":{"type":"integer"}}}`, `{"n":5.0}`, "5  []", ""},
		{`{"properties":{"n":{"type":"integer"}}}`, `{"n":1e2,"r":7.50}`, "100 7.50 []", ""},
		{`{"properties":{"n":{"type":"integer"}}}`, `{"n":-9.223372036854775808e18}`,
			"-9223372036854775808  []", ""},
		{`{"properties":{"n":{"type":"integer"}}}`, `{"n":9223372036854775808}`, "",
			"number for the field n"},
		{`{"properties":{"n":{"type":"integer"}}}`, `{"n":5.5}`, "", "/properties/n: type"},
		{`{"properties":{"l":{"items":{"type":"integer"}}}}`, `{"l":[1,2.0,30e-1]}`, "0  [1 2 3]", ""},
		{`{"properties":{"r":{"type":"number"}}}`, `{"r":1e400}`, "0 1e400 []", ""},
		{`{"properties":{"r":{"maximum":9007199254740992}}}`, `{"r":9007199254740993}`, "", "maximum"},
		{`{"properties":{"r":{"minimum":9007199254740993}}}`, `{"r":9007199254740992}`, "", "minimum"},
		{`{"properties":{"n":{"minimum":9007199254740993}}}`, `{"n":9007199254740993}`,
			"9007199254740993  []", ""},
		{`{"properties":{"r":{"const":9007199254740993}}}`, `{"r":9007199254740992}`, "", "const"},
		{`{"properties":{"r":{"enum":[1,2]}}}`, `{"r":2.0}`, "0 2.0 []", ""},
		{`{}`, `{"r":1e999999999}`, "", "exponent"},
		{`{}`, `{"r":1e-999999999}`, "", "exponent"},
		{`{}`, `{"r":1` + strings.Repeat("0", 1<<20) + `}`, "", "digits"},
	} {
		codec := jsonschema.CodecOf[box](b.registry(t, nil), c.schema, nil)
		var v box
		err := codec.Decode(t.Context(), skald.Message{Data: []byte(c.data)}, &v)
		got := fmt.Sprintf("%d %s %v", v.N, v.R, v.L)
		if (err == nil) != (c.says == "") || err == nil && got != c.want ||
			err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s, held to %s, is %q, %v", c.data[:min(len(c.data), 60)], c.schema, got, err)
		}
	}
}

// The comparison of schemas also computes with rationals.
func TestNumbersOfJSONSchemas(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reader, writer string
		fits, limit    bool
	}{
		{`{"multipleOf":0.01}`, `{"multipleOf":0.05}`, true, false},
		{`{"multipleOf":0.05}`, `{"multipleOf":0.01}`, false, false},
		{`{"multipleOf":0.1}`, `{"multipleOf":0.3}`, true, false},
		{`{"minimum":9007199254740993}`, `{"minimum":9007199254740992}`, false, false},
		{`{"minimum":9007199254740992}`, `{"minimum":9007199254740993}`, true, false},
		{`{"maximum":1e400}`, `{"maximum":1e399}`, true, false},
		{`{"enum":[1,2.0]}`, `{"enum":[1.0,2]}`, true, false},
		{`{"type":"integer"}`, `{"const":9007199254740993.5}`, false, false},
		{`{"type":"integer"}`, `{"const":1e2}`, true, false},
		{`{"maximum":1e999999999}`, `{"maximum":1}`, false, true},
		{`{"maximum":1}`, `{"enum":[1e-999999999]}`, false, true},
	} {
		found, err := jsonschema.Format{}.Problems(jsonOf(c.reader), jsonOf(c.writer))
		if limit := new(schema.LimitError); errors.As(err, &limit) != c.limit || err != nil && !c.limit ||
			err == nil && (len(found) == 0) != c.fits {
			t.Errorf("%s reads %s: %v, %v", c.reader, c.writer, found, err)
		}
	}
}

// polymorphic returns a schema of nested alternatives.
func polymorphic(word string, levels int) string {
	out := `{"type":"string"}`
	for i := range levels {
		out = fmt.Sprintf(`{%q:[{"type":"object","properties":{"k":{"const":"a%d"},"n":%s},"required":["k"]},`+
			`{"type":"object","properties":{"k":{"const":"b%d"},"n":{"type":"integer"}},"required":["k"]},`+
			`{"type":"null"}]}`, word, i, out, i)
	}
	return out
}

// levels returns a schema in which each alternative refers to the next level.
func levels(word string, n int) string {
	var defs []string
	for i := range n {
		next := fmt.Sprintf(`{"properties":{"k":{"const":"%%s"},"n":{"$ref":"#/$defs/l%d"}}}`, i+1)
		defs = append(defs, fmt.Sprintf(`"l%d":{%q:[%s,%s,%s]}`, i, word, fmt.Sprintf(next, "a"),
			fmt.Sprintf(next, "b"), fmt.Sprintf(next, "c")))
	}
	return fmt.Sprintf(`{"$ref":"#/$defs/l0","$defs":{%s,"l%d":{"type":"string"}}}`, strings.Join(defs, ","),
		n)
}

// tangle returns a schema of alternatives that all refer to each other.
func tangle(third string) string {
	var defs []string
	for i := range 40 {
		var all []string
		for j := range 40 {
			all = append(all, fmt.Sprintf(`{"properties":{%q:{"$ref":"#/$defs/d%d"}}}`,
				[]string{"p0", "p1", third}[j%3], (i*j+1)%40))
		}
		defs = append(defs, fmt.Sprintf(`"d%d":{"anyOf":[%s]}`, i, strings.Join(all, ",")))
	}
	return `{"$ref":"#/$defs/d0","$defs":{` + strings.Join(defs, ",") + `}}`
}

// A realistic schema of many levels is compared. One that would take too long is not, and the verdict is an
// error that gives the limit.
func TestDeepAlternatives(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reader, writer string
		fits, limit    bool
	}{
		"anyOf":        {polymorphic("anyOf", 14), polymorphic("anyOf", 14), true, false},
		"by reference": {levels("anyOf", 14), levels("anyOf", 14), true, false},
		"of wider": {levels("anyOf", 14), strings.ReplaceAll(levels("anyOf", 14), "string", "number"),
			false, false},
		"a longer one":  {polymorphic("anyOf", 15), polymorphic("anyOf", 14), false, false},
		"oneOf, anyOf":  {polymorphic("oneOf", 14), polymorphic("anyOf", 14), true, false},
		"a tangle":      {tangle("p2"), tangle("p1"), false, true},
		"very deep":     {strings.Repeat(`{"not":`, 100_000), "{}", false, true},
		"of many parts": {`{"enum":[` + strings.Repeat("1,", 100_000) + `1]}`, "{}", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := jsonschema.Format{}.Problems(jsonOf(c.reader), jsonOf(c.writer))
			if limit := new(schema.LimitError); errors.As(err, &limit) != c.limit || err != nil && !c.limit ||
				err == nil && (len(found) == 0) != c.fits {
				t.Errorf("%v, %v", found, err)
			}
		})
	}
}

// A payload that would take hours to validate is refused with a LimitError. One that is only deep is read.
func TestValidationIsBounded(t *testing.T) {
	t.Parallel()
	both := func(word string) string {
		return fmt.Sprintf(`{%q:[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}},"x":1}]}`, word)
	}
	deep := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	var ladder []string
	for i := range 40 {
		next := fmt.Sprintf(`{"$ref":"#/$defs/l%d"}`, i+1)
		ladder = append(ladder, fmt.Sprintf(`"l%d":{"allOf":[%s,%s]}`, i, next, next))
	}
	tree := `{"type":"object","properties":{"v":{"type":"integer"},"kids":{"type":"array","items":{"$ref":"#"}}}}`
	wide := `{"v":1,"kids":[` + strings.Repeat(`{"v":1,"kids":[{"v":2}]},`, 10_000) + `{}]}`
	for name, c := range map[string]struct {
		schema, data string
		limit        bool
	}{
		"all of both": {both("allOf"), deep(100), true},
		"one of both": {both("oneOf"), deep(100), true},
		"not so deep": {both("allOf"), deep(10), false},
		"a ladder": {`{"$ref":"#/$defs/l0","$defs":{` + strings.Join(ladder, ",") + `,"l40":{}}}`, "1",
			true},
		"an honest one": {tree, wide, false},
	} {
		err := jsonschema.Format{}.Verify(jsonOf(c.schema), []byte(c.data))
		if limit := new(schema.LimitError); errors.As(err, &limit) != c.limit || err != nil && !c.limit {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// group is a set of schemas and values that two libraries judge.
type group struct {
	Schema string   `json:"schema"`
	Values []string `json:"values"`
	// Differ lists the values that jsonschema-go judges wrongly, because it computes with float64.
	Differ []string `json:"differ,omitempty"`
}

// Skald's verdicts equal those of a second library, except where that library is known to be wrong.
func TestVerdictsOfASecondLibrary(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/jsonschema.json")
	if err != nil {
		t.Fatal(err)
	}
	var corpus []group
	if err := json.Unmarshal(text, &corpus); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, g := range corpus {
		var s google.Schema
		if err := json.Unmarshal([]byte(g.Schema), &s); err != nil {
			t.Fatalf("%s: %v", g.Schema, err)
		}
		second, err := s.Resolve(nil)
		if err != nil {
			t.Fatalf("%s: %v", g.Schema, err)
		}
		for _, data := range g.Values {
			var v any
			theirs := json.Unmarshal([]byte(data), &v)
			if theirs == nil {
				theirs = second.Validate(v)
			}
			ours := jsonschema.Format{}.Verify(jsonOf(g.Schema), []byte(data))
			differs := slices.Contains(g.Differ, data)
			if ((ours == nil) == (theirs == nil)) == differs {
				t.Errorf("%s, held to %s: ours %v, theirs %v, known to differ: %v", data, g.Schema, ours,
					theirs, differs)
			}
			n++
		}
	}
	if n < 300 {
		t.Errorf("%d verdicts", n)
	}
}
