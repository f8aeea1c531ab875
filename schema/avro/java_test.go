package avro

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/avro"

	"github.com/skald-go/skald/schema"
)

// pair is a line of testdata/java.jsonl, which testdata/java wrote.
type pair struct {
	ID             int
	Writer, Reader string
	Data           string // of the writer, in hexadecimal digits
	Compatible     bool   // to Java's SchemaCompatibility
	Java           string // "refused", or "value " and the value that Java reads
}

func pairs(t *testing.T) (out []pair) {
	t.Helper()
	file, err := os.Open("testdata/java.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var p pair
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

// Skald reads a payload as Java does, or refuses it. testdata/differences.txt lists the pairs where the two
// differ; docs/schemas.md explains why.
func TestPairsOfJava(t *testing.T) {
	t.Parallel()
	var differ []string
	all := pairs(t)
	for _, p := range all {
		ours := read(t, p)
		if ours == p.Java || strings.HasPrefix(ours, "refused: ") && p.Java == "refused" {
			continue
		}
		differ = append(differ, fmt.Sprintf("%d: Skald %+q; Java %+q", p.ID, ours, p.Java))
	}
	if len(all) != 500 {
		t.Errorf("%d pairs", len(all))
	}
	got := strings.Join(differ, "\n") + "\n"
	want, err := os.ReadFile("testdata/differences.txt")
	if err != nil || got != string(want) {
		t.Errorf("testdata/differences.txt has to be\n%s", got)
	}
}

// read returns the result of Skald in the form of Java's results, and checks that check has the same
// verdict.
func read(t *testing.T, p pair) string {
	t.Helper()
	writer, reader := schema.Schema{Format: schema.Avro, Text: p.Writer}, schema.Schema{Format: schema.Avro,
		Text: p.Reader}
	found, problem := Format{}.Problems(reader, writer)
	l := newLanguage[any](func() (*avro.Schema, error) { return avro.Parse(p.Reader) })
	r, err := l.Reader(writer, nil)
	if refused := problem != nil || len(found) > 0; refused != (err != nil) {
		t.Errorf("%d: check says %v, %v; the reader %v", p.ID, found, problem, err)
	}
	if err != nil {
		return "refused: " + err.Error()
	}
	data, err := hex.DecodeString(p.Data)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := r.Read(data, &v); err != nil {
		return "refused: " + err.Error()
	}
	return "value " + text(v)
}

func text(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case float32:
		return "f:" + rat(new(big.Rat).SetFloat64(float64(v)))
	case float64:
		return "f:" + rat(new(big.Rat).SetFloat64(v))
	case *big.Rat:
		return "d:" + rat(v)
	case json.Number:
		out, _ := new(big.Rat).SetString(v.String())
		return "d:" + rat(out)
	case time.Time:
		return fmt.Sprint("t:", new(big.Int).Add(new(big.Int).Mul(big.NewInt(v.Unix()), big.NewInt(1e9)),
			big.NewInt(int64(v.Nanosecond()))))
	case time.Duration:
		return fmt.Sprint("n:", v.Nanoseconds())
	case []byte:
		return "x:" + hex.EncodeToString(v)
	case string:
		return "s:" + v
	case []any:
		var out []string
		for _, one := range v {
			out = append(out, text(one))
		}
		return "[" + strings.Join(out, ", ") + "]"
	case map[string]any:
		var out []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			out = append(out, name+"="+text(v[name]))
		}
		return "{" + strings.Join(out, ", ") + "}"
	}
	return fmt.Sprint(v)
}

func rat(r *big.Rat) string {
	n, _ := r.FloatPrec()
	return r.FloatString(n)
}

// A value keeps its meaning, or both check and the reader refuse it, at every position of its type.
func TestMeaningOfAvro(t *testing.T) {
	t.Parallel()
	record := func(fields string) string { return `{"type":"record","name":"R","fields":[` + fields + `]}` }
	decimal := `{"type":"bytes","logicalType":"decimal","precision":12,"scale":2}`
	for name, c := range map[string]struct{ writer, reader, want string }{
		"beside the type": {record(`{"name":"a","type":"long","logicalType":"timestamp-micros"}`),
			record(`{"name":"a","type":"long","logicalType":"timestamp-millis"}`), "another value"},
		"beside the type and within": {record(`{"name":"a","type":{"type":"long","logicalType":"timestamp-micros"}}`),
			record(`{"name":"a","type":"long","logicalType":"timestamp-millis"}`), "another value"},
		"beside a union": {record(`{"name":"a","type":["null","long"],"logicalType":"timestamp-millis"}`),
			record(`{"name":"a","type":["null",{"type":"long","logicalType":"timestamp-micros"}]}`),
			"another value"},
		"the same, beside and within": {record(`{"name":"a","type":"long","logicalType":"timestamp-millis"}`),
			record(`{"name":"a","type":{"type":"long","logicalType":"timestamp-millis"}}`), ""},
		"a text as decimal": {`"string"`, decimal, "a text for the bytes"},
		"a decimal as text": {decimal, `"string"`, "for a text"},
		"a text as decimal, in a union": {`["null","string"]`, `["null",` + decimal + `]`,
			"a text for the bytes"},
		"a decimal as text, in a union": {decimal, `["null","string"]`, "for a text"},
		"a decimal beside the type": {record(`{"name":"a","type":"string"}`),
			record(`{"name":"a","type":"bytes","logicalType":"decimal","precision":9,"scale":2}`),
			"a text for"},
		"an uuid as decimal": {`{"type":"string","logicalType":"uuid"}`, decimal, "another value"},
		"bytes as decimal":   {`"bytes"`, decimal, ""},
		"a default in words": {record(``), record(`{"name":"a","type":` + decimal + `,"default":"123.45"}`),
			"default"},
		"a default in words, in a union": {record(``), record(`{"name":"a","type":[` + decimal +
			`,"null"],"default":"-1"}`), "default"},
		"a default in bytes": {record(``), record(`{"name":"a","type":` + decimal +
			`,"default":"\u0001\u00ff"}`), ""},
		"a time behind a reference": {`{"type":"array","items":{"type":"record","name":"R","fields":[` +
			`{"name":"n","type":["null","R"]},{"name":"t","type":"long","logicalType":"timestamp-millis"}]}}`,
			`{"type":"array","items":{"type":"record","name":"R","fields":[` +
				`{"name":"n","type":["null","R"]},{"name":"t","type":"long","logicalType":"timestamp-nanos"}]}}`,
			"another value"},
	} {
		writer, reader := schema.Schema{Format: schema.Avro, Text: c.writer},
			schema.Schema{Format: schema.Avro,
				Text: c.reader}
		found, err := Format{}.Problems(reader, writer)
		if err != nil || (len(found) == 0) != (c.want == "") || !strings.Contains(fmt.Sprint(found), c.want) {
			t.Errorf("%s: check says %v, %v", name, found, err)
		}
		_, err = newLanguage[any](func() (*avro.Schema,
			error) {
			return avro.Parse(c.reader)
		}).Reader(writer, nil)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the reader says %v", name, err)
		}
	}
}

// Schemas that would take too long to compare are not compared.
func TestHugeAvro(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"deep":  strings.Repeat(`{"type":"array","items":`, 50_000) + `"int"` + strings.Repeat("}", 50_000),
		"many":  `{"type":"enum","name":"E","symbols":["A0"` + strings.Repeat(`,"A"`, 30_000) + `]}`,
		"large": `{"type":"fixed","name":"F","size":1,"doc":"` + strings.Repeat("a", 3<<20) + `"}`,
	} {
		_, err := Format{}.Problems(schema.Schema{Text: text}, schema.Schema{Text: text})
		if limit := new(schema.LimitError); !errors.As(err, &limit) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Each record has fields of two others, so each record of the reader can meet each of the writer.
	mesh := func(stride int) schema.Schema {
		const n = 1500
		var fields []string
		for i := n - 1; i >= 0; i-- {
			a, b := "null", "null"
			if i < n-1 {
				a, b = fmt.Sprintf("n%d.R", i+1), fmt.Sprintf("n%d.R", min(i+stride, n-1))
			}
			fields = append(fields,
				fmt.Sprintf(`{"name":"f%d","type":{"type":"record","name":"R","namespace":"n%d",`+
					`"fields":[{"name":"a","type":%q},{"name":"b","type":%q}]}}`, i, i, a, b))
		}
		return schema.Schema{Text: `{"type":"record","name":"S","fields":[` + strings.Join(fields, ",") +
			`]}`}
	}
	if found, err := (Format{}).Problems(mesh(2), mesh(2)); err != nil || len(found) > 0 {
		t.Errorf("one schema beside itself: %v, %v", found, err)
	}
	_, err := Format{}.Problems(mesh(2), mesh(7))
	if limit := new(schema.LimitError); !errors.As(err, &limit) {
		t.Errorf("each record meets each: %v", err)
	}
}
