package plan_test

import (
	"strings"
	"testing"

	"github.com/skald-go/skald/internal/saga/plan"
)

// TestFits checks which data fits a shape. Data of another kind, or with a field that the type does not read,
// does not fit. Null fits, and so does anything that the shape does not determine.
func TestFits(t *testing.T) {
	const order = `{"id":string,"lines":[{"sku":string,"n":number}],"paid":bool,"tags":{*:string},"at":time.Time}`
	for _, c := range []struct{ shape, data, want string }{
		{"string", `"r-1"`, ""},
		{"string", `1`, "it is a number and has to be a string"},
		{"string", `null`, ""},
		{"number", `"1"`, "it is a string and has to be a number"},
		{"bool", `{}`, "it is an object and has to be a bool"},
		{"[number]", `[1,2.5]`, ""},
		{"[number]", `[1,true]`, "[1]: it is a bool and has to be a number"},
		{"any", `[1]`, ""},
		{"", `[1]`, ""},
		{"uuid.UUID", `[1]`, ""},
		{"opt.Pair[int,string]", `[1]`, ""},
		{"string", `nonsense`, "not JSON"},
		{plan.Nothing, `{}`, ""},
		{plan.Nothing, `{"a":1}`, `the field "a", and none is known`},
		{order,
			`{"id":"o-1","lines":[{"sku":"tea","n":2}],"paid":true,"tags":{"x":"y"},"at":"2026-01-01T00:00:00Z"}`, ""},
		{order, `{"ID":"o-1"}`, ""},
		{order, `{"id":"o-1","lines":null}`, ""},
		{order, `[]`, "it is an array and has to be an object"},
		{order, `{"idd":"o-1"}`, `it has the field "idd"; known are id, lines, paid, tags, at`},
		{order, `{"lines":[{"sku":"tea","m":2}]}`, `lines[0]: it has the field "m"; known are sku, n`},
		{order, `{"lines":[{"sku":7}]}`, "lines[0].sku: it is a number and has to be a string"},
		{order, `{"tags":{"x":1}}`, "tags.x: it is a number"},
		{"int8", `300`, "it is a number and has to be an integer from -128 to 127"},
		{"uint64", `-1`, "it is a number and has to be an integer from 0 to 18446744073709551615"},
		{"int64", `1.5`, "an integer from -9223372036854775808 to 9223372036854775807"},
		{"float32", `1e39`, "it is a number and has to be a number that a float32 can be"},
		{"time", `"now"`, `it is a string and has to be a text such as "2006-01-02T15:04:05Z"`},
		{"bytes", `"?"`, "it is a string and has to be a text in base64"},
		{`{"n":quoted uint8}`, `{"n":1}`, "n: it is a number and has to be an integer from 0 to 255 in quot"},
		{`{int8:bool}`, `{"x":true}`, `the name of its field "x" has to be an integer from -128 to 127`},
		{`{"a":int8,"A":string}`, `{"a":1,"A":"x"}`, ""},
		{"of.a.later.build", `1.5`, ""},
	} {
		if got := plan.Fits(c.shape, []byte(c.data)); c.want == "" && got != "" ||
			!strings.Contains(got, c.want) {
			t.Errorf("%s as %s: %q, want %q", c.data, c.shape, got, c.want)
		}
	}
}
