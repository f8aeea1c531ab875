package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	traces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"

	"github.com/skald-go/skald/examples/shop/service"
)

// receiver is what a collector's OTLP endpoint hears.
type receiver struct {
	mu       sync.Mutex
	services map[string][]string // services with a span in the trace, by trace id
	names    map[string]bool     // names of metrics
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch q.URL.Path {
	case "/v1/traces":
		var said traces.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &said)
		}
		for _, of := range said.ResourceSpans {
			for _, s := range of.ScopeSpans {
				for _, span := range s.Spans {
					r.services[string(span.TraceId)] = append(r.services[string(span.TraceId)],
						named(of.Resource.Attributes))
				}
			}
		}
	case "/v1/metrics":
		var said metrics.ExportMetricsServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &said)
		}
		for _, of := range said.ResourceMetrics {
			for _, s := range of.ScopeMetrics {
				for _, m := range s.Metrics {
					r.names[m.Name] = true
				}
			}
		}
	}
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
	}
}

func named(attributes []*common.KeyValue) string {
	for _, a := range attributes {
		if a.Key == "service.name" {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

// One order through the six services arrives at an OTLP endpoint as one trace, each span under the name of
// its service; what they count arrives there, too, and at /metrics.
func TestOneTraceArrivesByOTLP(t *testing.T) {
	got := &receiver{services: map[string][]string{}, names: map[string]bool{}}
	collector := httptest.NewServer(got)
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	store := "sqlite:" + filepath.Join(t.TempDir(), "shop")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	read, write := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"serve", "all", "--store", store, "--broker", "mem:", "--listen",
			"127.0.0.1:0", "--metrics", "127.0.0.1:0"}, write, io.Discard)
		_ = write.Close()
	}()
	said := map[string]string{}
	lines := bufio.NewScanner(read)
	for len(said) < 2 && lines.Scan() {
		what, url, _ := strings.Cut(lines.Text(), ": ")
		said[what] = url
	}
	shopURL := strings.TrimSuffix(said["orders"], "/orders")
	if c, out, errs := shop(t, "load", "--url", shopURL, "--orders", "1", "--wait", "5m"); c != 0 {
		t.Fatalf("load: exit %d\n%s%s", c, out, errs)
	}
	settle(t, store)
	for end := time.Now().Add(5 * time.Minute); !strings.Contains(page(t, said["metrics"]),
		"skald_inbox_message_received_total{"); {
		if time.Now().After(end) {
			t.Fatalf("/metrics has nothing of the inboxes:\n%s", page(t, said["metrics"]))
		}
	}
	stop()
	if c := <-code; c != 0 {
		t.Errorf("exit %d", c)
	}
	got.mu.Lock()
	defer got.mu.Unlock()
	whole := 0
	for _, services := range got.services {
		if !slices.ContainsFunc(service.Names(),
			func(name string) bool { return !slices.Contains(services, name) }) {
			whole++
		}
	}
	if whole != 1 {
		t.Errorf("%d traces go through all six services: %v", whole, got.services)
	}
	for _, name := range []string{"skald.outbox.message.written", "skald.outbox.message.published",
		"skald.inbox.process.duration"} {
		if !got.names[name] {
			t.Errorf("%s did not arrive: %v", name, got.names)
		}
	}
}

func page(t *testing.T, url string) string {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Without the variable nothing is sent, and an endpoint that is away keeps nobody from their work.
func TestEndpointIsUnavailable(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	at, end := started(t, "sqlite:"+filepath.Join(t.TempDir(), "shop"))
	if code, out, errs := shop(t, "load", "--url", at, "--orders", "3", "--wait", "5m"); code != 0 {
		t.Errorf("load: exit %d\n%s%s", code, out, errs)
	}
	if code := end(); code != 0 {
		t.Errorf("serve: exit %d", code)
	}
}
