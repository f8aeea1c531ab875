package schema_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/sr"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/schema"
	"github.com/skald-go/skald/schema/avro"
	"github.com/skald-go/skald/schema/jsonschema"
	"github.com/skald-go/skald/schema/protobuf"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// endless body counts the bytes that are read from it.
type endless struct{ read *atomic.Int64 }

func (e endless) Read(to []byte) (int, error) {
	for i := range to {
		to[i] = 'a'
	}
	e.read.Add(int64(len(to)))
	return len(to), nil
}
func (endless) Close() error { return nil }

// The reader gives up on an endless answer and on an endless chain of references. The message waits for a
// build that can read it; other schemas are read.
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
		if number >= 19000 { // the numbers from 19000 on are reserved
			number += 1000
		}
		fmt.Fprintf(&b, "int32 f%d = %d;\n", i, number)
	}
	return b.String() + "}\n"
}

// Schemas that would take too long to parse are refused. The time for schemas that are only large grows
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

// Messages of a schema that would take too long to compare are parked. A single worker still handles
// messages of other keys.
func TestHostileSchemaStopsItsOwnMessagesOnly(t *testing.T) {
	t.Parallel()
	g, b := inMemory(t), newBed(t)
	b.fake.SeedSchema("hostile", 1, 4711, sr.Schema{Type: sr.TypeJSON, Schema: tangle("p2")})
	codec := jsonschema.CodecOf[payment1](b.registry(t, g.db), json1, nil)
	good := skald.Message{Topic: g.topic, Type: "payment.processed"}
	if err := codec.Encode(t.Context(), &good, payment1{"o1", 7}); err != nil {
		t.Fatal(err)
	}
	var messages []skald.Message
	for i := range 60 {
		m := good
		m.ID, m.Source, m.Time, m.Key = fmt.Sprint("m", i), "/another", time.Now(), fmt.Append(nil, "k", i)
		if i%3 == 0 {
			m.Headers = []skald.Header{{Name: schema.Header, Value: []byte{0, 0, 0, 0x12, 0x67}}}
		}
		messages = append(messages, m)
	}
	if err := g.bus.Publish(t.Context(), messages).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	in := inbox.New(g.db, g.bus, "payments", &inbox.Options{Workers: 1,
		Logger: slog.New(slog.DiscardHandler)})
	inbox.On(in, skald.Event[payment1]{Topic: g.topic, Type: "payment.processed", Codec: codec},
		func(ctx context.Context, tx *memstore.Tx, m skald.Received[payment1]) error {
			return g.effect(ctx, tx, string(m.Key), "done")
		})
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = in.Run(ctx) })
	defer func() { stop(); wg.Wait() }()
	end := time.After(time.Minute)
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		kept, err := store.ListParked(t.Context(), g.db, store.ParkedQuery{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		if len(kept) == 20 && len(g.effects(t)) == 40 && kept[0].Attempts == 0 &&
			strings.Contains(kept[0].Last.Why, "cannot be decided") {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("%d are kept, %d are handled; %+v", len(kept), len(g.effects(t)), kept)
		}
	}
}
