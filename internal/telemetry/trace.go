package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// carrier is a message's trace context for OpenTelemetry's own reader and writer of it.
type carrier struct{ traceparent string }

const traceparent = "traceparent"

func (c *carrier) Get(key string) string {
	if key == traceparent {
		return c.traceparent
	}
	return ""
}

func (c *carrier) Set(key, value string) {
	if key == traceparent {
		c.traceparent = value
	}
}

func (c *carrier) Keys() []string { return []string{traceparent} }

// TraceParent is the trace context of ctx as a message carries it; "" when ctx is in no trace.
func TraceParent(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
	var c carrier
	propagation.TraceContext{}.Inject(ctx, &c)
	return c.traceparent
}

// Remote is ctx under the span that a message names. What cannot be read is as if it were not there.
func Remote(ctx context.Context, parent string) context.Context {
	if sc := origin(parent); sc.IsValid() {
		return trace.ContextWithRemoteSpanContext(ctx, sc)
	}
	return ctx
}

// origin is the span that a message names. OpenTelemetry's own reader makes two contexts on the way to it; it
// reads what is not of version 00, and says what is none.
func origin(parent string) trace.SpanContext {
	if len(parent) == lengthW3C && parent[:3] == "00-" && parent[35] == '-' && parent[52] == '-' {
		id, bad := trace.TraceIDFromHex(parent[3:35])
		span, worse := trace.SpanIDFromHex(parent[36:52])
		if f := parent[53:]; bad == nil && worse == nil && (f == "01" || f == "00") {
			return trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: span,
				TraceFlags: trace.TraceFlags(f[1] - '0'), Remote: true})
		}
	}
	if parent == "" {
		return trace.SpanContext{}
	}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(),
		&carrier{parent}))
}

const (
	lengthW3C  = 55 // of version 00: 00-<trace, 32>-<span, 16>-<flags, 2>
	flagSample = 1
)

// sampled tells whether somebody wants to see the trace: the last bit of the flags.
func sampled(parent string) bool {
	if len(parent) != lengthW3C {
		return false
	}
	c := parent[lengthW3C-1]
	if c > '9' {
		c -= 'a' - 10 // lower case by the standard; its last bit is that of the letter's number
	}
	return c&flagSample == 1
}
