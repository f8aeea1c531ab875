package schema_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/sr"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/schema"
	"github.com/skald-go/skald/schema/avro"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// A registry answers one request and then fails in one way. Messages of that schema, and of a topic without
// schemas, are handled. Messages of unknown schemas wait, and the registry gets few requests.
func TestUnreachableRegistryDelaysUnknownSchemasOnly(t *testing.T) {
	t.Parallel()
	answers := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	for name, c := range map[string]struct {
		fails http.HandlerFunc
		why   string
	}{
		"503":   {answers(http.StatusServiceUnavailable), "registry"},
		"401":   {answers(http.StatusUnauthorized), "configuration error"},
		"hangs": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "registry"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			unknownSchemasWait(t, c.fails, c.why)
		})
	}
}

func unknownSchemasWait(t *testing.T, fails http.HandlerFunc, why string) {
	const unknown, known, plain = 20, 300, 300
	var asked, away atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if away.Load() > 0 {
			fails(w, r)
			return
		}
		fmt.Fprintf(w, `{"schema":%q,"id":1,"version":1}`, avro1)
	}))
	t.Cleanup(server.Close)
	g := inMemory(t)
	codec := avro.CodecOf[payment1](askedAt(t, server.URL), avro1, nil)
	var v payment1
	if err := codec.Decode(t.Context(), paid(1), &v); err != nil {
		t.Fatal(err)
	}
	away.Store(1)
	asked.Store(0)
	messages := make([]skald.Message, 0, unknown+known+plain)
	add := func(n int, m skald.Message) {
		for range n {
			i := len(messages)
			m.ID, m.Source, m.Time = fmt.Sprint("m", i), "/another", time.Now()
			m.Topic, m.Key = g.topic, fmt.Append(nil, "k", i)
			messages = append(messages, m)
		}
	}
	add(unknown/2, paid(2))
	for id := range unknown / 2 {
		add(1, paid(3+id))
	}
	add(known, paid(1))
	add(plain, skald.Message{Type: "plain", Data: []byte(`"x"`)})
	if err := g.bus.Publish(t.Context(), messages).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	in := inbox.New(g.db, g.bus, "payments", &inbox.Options{Workers: 2,
		Logger: slog.New(slog.DiscardHandler)})
	inbox.On(in, skald.Event[payment1]{Topic: g.topic, Type: "t", Codec: codec},
		func(ctx context.Context, tx *memstore.Tx, m skald.Received[payment1]) error {
			return g.effect(ctx, tx, string(m.Key), "read")
		})
	inbox.On(in, skald.Event[string]{Topic: g.topic, Type: "plain"},
		func(ctx context.Context, tx *memstore.Tx, m skald.Received[string]) error {
			return g.effect(ctx, tx, string(m.Key), "plain")
		})
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = in.Run(ctx) })
	t.Cleanup(func() { stop(); wg.Wait() })
	begun := time.Now()
	for done := 0; done < known+plain; time.Sleep(10 * time.Millisecond) {
		if done = len(g.effects(t)); time.Since(begun) > time.Minute {
			t.Fatalf("%d of %d others are handled", done, known+plain)
		}
	}
	// each of them waits for at most one request of its own; the registry gets one request in 2 s
	if n := asked.Load(); n > int64(time.Since(begun)/(2*time.Second))+3 {
		t.Errorf("%d requests in %v", n, time.Since(begun))
	}
	var kept []store.Parked
	for ; len(kept) < unknown || len(in.Health().Stuck) == 0; time.Sleep(10 * time.Millisecond) {
		var err error
		if kept, err = store.ListParked(t.Context(), g.db, store.ParkedQuery{Failed: true}); err != nil {
			t.Fatal(err)
		}
		for i := range kept {
			if kept[i].Attempts > 0 || !strings.Contains(kept[i].Last.Why, why) {
				t.Errorf("%d attempts are charged: %s", kept[i].Attempts, kept[i].Last.Why)
			}
		}
		if time.Since(begun) > 2*time.Minute {
			t.Fatalf("%d of %d are parked", len(kept), unknown)
		}
	}
	if h := in.Health(); !h.Ready {
		t.Errorf("%+v", h)
	}
}

func askedAt(t *testing.T, url string) *schema.Registry {
	t.Helper()
	client, err := sr.NewClient(sr.URLs(url))
	if err != nil {
		t.Fatal(err)
	}
	var r schema.Registry
	if err := r.Connect(schema.Config{Client: client, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	return &r
}
