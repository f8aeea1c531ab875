package inbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
)

// The payload of a message is in no log, span, metric, Health or stored failure, for any result.
func TestPayloadsAreNeverLogged(t *testing.T) {
	const secret = "4929123412341234"
	w := newWorld(t, 1)
	if err := w.bus.MakeTopics(t.Context(), 1, "dead"); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	spans, meters := tracetest.NewSpanRecorder(), metric.NewManualReader()
	runs := map[string]int{}
	in := w.inbox(&inbox.Options{Now: w.clock, Retry: inbox.Retry{Attempts: 2},
		Dead:           inbox.Dead{FreeKey: true, Topic: "dead"},
		Logger:         slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)),
		MeterProvider:  metric.NewMeterProvider(metric.WithReader(meters)),
	}, func(_ context.Context, _ tx, m skald.Received[string]) error {
		k := string(m.Key)
		runs[k]++
		switch k {
		case "no":
			return skald.Reject(errors.New("no"))
		case "never":
			return errors.New("never")
		case "later":
			if runs[k] == 1 {
				return skald.RetryAfter(time.Second, errors.New("later"))
			}
		case "panic":
			panic("oops")
		}
		return nil
	})
	inbox.On(in, skald.Event[int32]{Topic: "orders", Type: "number"},
		func(context.Context, tx, skald.Received[int32]) error { return nil })
	inbox.On(in, skald.Event[time.Time]{Topic: "orders", Type: "time"},
		func(context.Context, tx, skald.Received[time.Time]) error { return nil })
	other := func(m skald.Message, kind, id, data string) skald.Message {
		m.Type, m.ID, m.Data = kind, id, []byte(data)
		return m
	}
	good := w.message("good", secret)
	w.publish(good, good, other(good, "said", good.ID, `"another `+secret+`"`),
		w.message("no", secret), w.message("never", secret), w.message("later", secret),
		w.message("panic", secret),
		other(good, "number", "n", secret), other(good, "time", "t", `"`+secret+`"`),
		other(good, "said", "s", `"`+secret),
		other(good, "nobody's", "x", secret), other(good, "said", "", `"`+secret+`"`))
	for range 5 {
		w.quiet(in)
		w.pass(10 * time.Minute)
	}

	h := in.Health()
	if dead := w.dead(); h.Handled < 2 || len(dead) != 6 { // never, panic, number, time, syntax, no id
		t.Fatalf("%d dead letters, %+v", len(dead), h)
	}
	told := map[string]string{"log": log.String(), "health": fmt.Sprintf("%+v", h),
		"spans": fmt.Sprintf("%+v", tracetest.SpanStubsFromReadOnlySpans(spans.Ended()))}
	var measured metricdata.ResourceMetrics
	if err := meters.Collect(t.Context(), &measured); err != nil {
		t.Fatal(err)
	}
	told["metrics"] = fmt.Sprintf("%+v", measured)
	for _, k := range w.kept() {
		told["kept "+k.ID] = fmt.Sprintf("%+v %+v %+v %s", k.First, k.Last, k.Dead, k.Fault)
	}
	for _, row := range w.db.Rows() {
		told["announced "+row.ID] = string(row.Data)
	}
	if n := strings.Count(told["log"], "\n"); n < 5 || len(spans.Ended()) < 5 {
		t.Errorf("%d lines are logged, %d spans", n, len(spans.Ended()))
	}
	for where, text := range told {
		if strings.Contains(text, secret) {
			t.Errorf("%s has the payload:\n%s", where, text)
		}
	}
}
