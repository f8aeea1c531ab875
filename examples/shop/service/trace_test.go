package service_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/skald-go/skald/examples/shop/service"
	"github.com/skald-go/skald/examples/shop/table"
)

// One order through six services is one trace, over outbox rows and a broker: each handler is a child of
// the span that wrote its message, and each broker call is linked to the spans whose messages it sends.
func TestOneOrderIsOneTrace(t *testing.T) {
	seen := tracetest.NewInMemoryExporter()
	o := &service.Options{}
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSyncer(seen))
	o.Inbox.TracerProvider, o.Relay.TracerProvider = tracers, tracers
	s := newShop(t, o)
	ctx, root := tracers.Tracer("test").Start(t.Context(), "POST /orders")
	r := httptest.NewRequestWithContext(ctx, "POST", "/orders",
		strings.NewReader(`{"customer":"ada","items":[{"sku":"tea","quantity":1}]}`))
	r.Header.Set("Idempotency-Key", "one")
	w := httptest.NewRecorder()
	s.all["order"].HTTP().ServeHTTP(w, r)
	root.End()
	if w.Code != http.StatusCreated {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	quiet(t, s.work...)
	if n := num(t, s.dbs["order"], "SELECT COUNT(*) FROM orders WHERE state = 'confirmed'"); n != 1 {
		t.Fatal("the order was not confirmed")
	}
	checkTrace(t, seen.GetSpans(), root.SpanContext(), s.writers())
}

// writers returns, by message, the span in its row and the service that wrote it.
func (s *shop) writers() map[string]writer {
	s.t.Helper()
	out := map[string]writer{}
	for name, db := range s.dbs {
		err := table.All(s.t.Context(), table.SQL(db), "SELECT id, traceparent FROM skald_outbox", nil,
			func(row table.Row) error {
				var id, parent string
				err := row.Scan(&id, &parent)
				ctx := propagation.TraceContext{}.Extract(s.t.Context(),
					propagation.MapCarrier{"traceparent": parent})
				out[id] = writer{name, trace.SpanContextFromContext(ctx)}
				return err
			})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	return out
}

type writer struct {
	service string
	span    trace.SpanContext
}

func checkTrace(t *testing.T, spans tracetest.SpanStubs, root trace.SpanContext, rows map[string]writer) {
	t.Helper()
	consumerOf := map[trace.SpanID]string{root.SpanID(): "order"} // the service that handles under that span
	var sent, processed []string
	for _, s := range spans {
		if s.SpanContext.TraceID() != root.TraceID() {
			t.Errorf("%s is in another trace", s.Name)
		}
		if s.SpanKind == trace.SpanKindConsumer {
			consumerOf[s.SpanContext.SpanID()] = text(s, "messaging.consumer.group.name")
		}
	}
	for _, s := range spans {
		switch s.SpanKind {
		case trace.SpanKindConsumer:
			id := text(s, "messaging.message.id")
			if got := text(s, "skald.outcome"); got != "processed" {
				t.Errorf("%s ended as %q", s.Name, got)
			}
			if s.Parent.SpanID() != rows[id].span.SpanID() || !s.Parent.IsRemote() {
				t.Errorf("%s by %s has parent %s, its row names %s", s.Name,
					text(s, "messaging.consumer.group.name"), s.Parent.SpanID(), rows[id].span.SpanID())
			}
			processed = append(processed, text(s, "messaging.consumer.group.name"))
		case trace.SpanKindProducer:
			for _, l := range s.Links {
				id := l.Attributes[0].Value.AsString()
				if l.SpanContext.SpanID() != rows[id].span.SpanID() {
					t.Errorf("%s is linked to %s for %s, its row names %s", s.Name, l.SpanContext.SpanID(),
						id, rows[id].span.SpanID())
				}
				sent = append(sent, id)
			}
		}
	}
	for id, row := range rows {
		if got := consumerOf[row.span.SpanID()]; got != row.service {
			t.Errorf("message %s of %s was written under a span of %q", id, row.service, got)
		}
		if !slices.Contains(sent, id) {
			t.Errorf("no call to the broker is linked to message %s of %s", id, row.service)
		}
	}
	for _, name := range service.Names() {
		if !slices.Contains(processed, name) {
			t.Errorf("%s has no span in the trace", name)
		}
	}
}

// text returns a span's attribute.
func text(s tracetest.SpanStub, key string) string {
	for _, a := range s.Attributes {
		if string(a.Key) == key {
			return a.Value.AsString()
		}
	}
	return ""
}
