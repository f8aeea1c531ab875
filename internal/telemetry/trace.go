package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// carrier gives OpenTelemetry's propagator access to the trace context of a message.
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

// TraceParent returns the trace context of ctx for a message, or "" if ctx has no trace.
func TraceParent(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
	var c carrier
	propagation.TraceContext{}.Inject(ctx, &c)
	return c.traceparent
}

// Remote returns ctx with the span of a message as the parent. If the trace context of the message is
// invalid, Remote returns ctx.
func Remote(ctx context.Context, parent string) context.Context {
	if sc := origin(parent); sc.IsValid() {
		return trace.ContextWithRemoteSpanContext(ctx, sc)
	}
	return ctx
}

// origin parses the trace context of a message. It uses OpenTelemetry's parser only for other versions and
// invalid texts, because that parser allocates two contexts.
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

// sampled reports whether the trace is sampled. The last bit of the flags has this information.
func sampled(parent string) bool {
	if len(parent) != lengthW3C {
		return false
	}
	c := parent[lengthW3C-1]
	if c > '9' {
		c -= 'a' - 10 // the standard requires lower case; for the last bit, any hexadecimal letter works
	}
	return c&flagSample == 1
}
