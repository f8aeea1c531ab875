package schema_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/schema"
	"github.com/skald-go/skald/schema/avro"
	"github.com/skald-go/skald/schema/protobuf"
)

// An endless body counts what is read of it.
type endless struct{ read *atomic.Int64 }

func (e endless) Read(to []byte) (int, error) {
	for i := range to {
		to[i] = 'a'
	}
	e.read.Add(int64(len(to)))
	return len(to), nil
}
func (endless) Close() error { return nil }

// An answer without end, or one that leads to ever more schemas, is given up. The message waits for a build
// that can read it; other schemas are read.
func TestAnswersAreBounded(t *testing.T) {
	var read atomic.Int64
	without := func(code int) func(*http.Request) *http.Response {
		return func(*http.Request) *http.Response {
			return &http.Response{StatusCode: code, Header: http.Header{},
				Body: struct {
					io.Reader
					io.Closer
				}{io.MultiReader(strings.NewReader(`{"schema":"`), endless{&read}), endless{&read}}}
		}
	}
	refers := func(names func(path string) []string) func(*http.Request) *http.Response {
		return func(r *http.Request) *http.Response {
			var refs []string
			for _, n := range names(r.URL.Path) {
				refs = append(refs, fmt.Sprintf(`{"name":%q,"subject":%q,"version":1}`, n, n))
			}
			return answer(http.StatusOK, fmt.Sprintf(`{"schema":"\"int\"","references":[%s]}`,
				strings.Join(refs, ",")))
		}
	}
	asked := 0
	for name, c := range map[string]struct {
		answer func(r *http.Request) *http.Response
		want   failure.Class
	}{
		"an answer": {without(http.StatusOK), failure.UnknownVersion},
		"an error":  {without(http.StatusInternalServerError), failure.Outage},
		"a big text": {func(*http.Request) *http.Response {
			return answer(http.StatusOK, fmt.Sprintf(`{"schema":%q}`, strings.Repeat("a", 3<<20)))
		}, failure.UnknownVersion},
		"references in a circle": {refers(func(string) []string { return []string{"a"} }),
			failure.UnknownVersion},
		"references without end": {refers(func(path string) []string { return []string{path + "x"} }),
			failure.UnknownVersion},
		"ever more references": {refers(func(path string) []string {
			asked++
			return []string{fmt.Sprint("a", asked), fmt.Sprint("b", asked)}
		}), failure.UnknownVersion},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var a air
				codec := avro.CodecOf[payment1](a.registry(t, io.Discard), avro1, nil)
				a.fail(func(r *http.Request) (*http.Response, error) { return c.answer(r), nil })
				var v payment1
				for range 100 {
					if err := codec.Decode(t.Context(), paid(2), &v); failure.Of(err) != c.want {
						t.Fatalf("%.300v: it is of class %q", err, failure.Of(err))
					}
				}
				if n := a.asked.Load(); n > 600 {
					t.Errorf("the registry got %d requests", n)
				}
				a.fail(nil)
				if err := codec.Decode(t.Context(), paid(3), &v); c.want != failure.Outage && err != nil {
					t.Errorf("another schema: %v", err)
				}
			})
		})
	}
	if n := read.Load(); n > 20<<20 {
		t.Errorf("%d bytes were read", n)
	}
}

func wide(fields int) string {
	var b strings.Builder
	b.WriteString("syntax = \"proto3\";\nmessage M {\n")
	for i := range fields {
		number := i + 1
		if number >= 19000 { // those above are reserved
			number += 1000
		}
		fmt.Fprintf(&b, "int32 f%d = %d;\n", i, number)
	}
	return b.String() + "}\n"
}

// Schemas that would take long to read are refused; those that merely are large are read in steps that grow
// with their size.
func TestHugeProto(t *testing.T) {
	grid := "syntax = \"proto3\";\nmessage A0 {}\nmessage B0 {}\n"
	for i := range 900 {
		grid += fmt.Sprintf("message A%d { A%d a = 1; A%d b = 2; }\n", i+1, i, (i*7)%(i+1))
	}
	crossed := strings.Replace(grid, "A900 { A899", "A900 { A1", 1)
	for name, c := range map[string]struct {
		reader, writer string
		limit          bool
	}{
		"15,000 fields":  {wide(15_000), wide(15_000), false},
		"100,000 fields": {wide(100_000), wide(100_000), true},
		"deep": {"syntax = \"proto3\";\n" + strings.Repeat("message M{", 100_000) + strings.Repeat("}",
			100_000),
			"", true},
		"many messages": {grid, crossed, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := protobuf.Format{}.Problems(schema.Schema{Format: schema.Protobuf, Text: c.reader},
				schema.Schema{Format: schema.Protobuf, Text: c.writer})
			if limit := new(schema.LimitError); errors.As(err, &limit) != c.limit || !c.limit && err != nil {
				t.Errorf("%v, want a limit: %v", err, c.limit)
			}
		})
	}
}
