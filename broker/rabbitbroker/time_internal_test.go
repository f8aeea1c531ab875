package rabbitbroker

import (
	"math"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/skald-go/skald/broker/internal/cloudevents"
	"github.com/skald-go/skald/internal/column"
)

// A plain message has a time in seconds. Who writes milliseconds there says no time: what was said stands
// among the headers.
func TestTimestampInMilliseconds(t *testing.T) {
	at := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	m, fault := decode(cloudevents.New(style()), "t",
		&amqp.Delivery{Timestamp: at.Local(), Headers: amqp.Table{}})
	if fault != nil || m.Time != at || len(m.Headers) != 0 {
		t.Errorf("%+v, %v", m, fault)
	}
	m, fault = decode(cloudevents.New(style()), "t", &amqp.Delivery{Timestamp: time.Unix(at.UnixMilli(), 0),
		Headers: amqp.Table{"a": "b"}})
	if fault != nil || !m.Time.IsZero() || len(m.Headers) != 2 || m.Headers[1].Name != "timestamp" ||
		string(m.Headers[1].Value) != "1770091506000" {
		t.Errorf("%+v, %v", m, fault)
	}
	if _, err := column.EncodeMessage(&m); err != nil {
		t.Error(err)
	}
}

// Each type of AMQP becomes text that a reader knows, also inside of tables and arrays.
func TestTextOfAMQPTypes(t *testing.T) {
	at := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	for want, v := range map[string]any{
		"1.1": amqp.Decimal{Scale: 1, Value: 11}, "-0.05": amqp.Decimal{Scale: 2, Value: -5},
		"12": amqp.Decimal{Value: 12}, "0.000": amqp.Decimal{Scale: 3}, "true": true, "-7": int64(-7),
		"1.25": float32(1.25), "2026-02-03T04:05:06Z": at.Local(),
		"1770091506000": time.Unix(at.UnixMilli(), 0),
		"a\xff":         []byte("a\xff"), "": nil,
		`{"a":[1.1,"2026-02-03T04:05:06Z",{"b":"AAE="}],"n":"NaN","t":"1770091506000","x":"/w=="}`: amqp.Table{
			"a": []any{amqp.Decimal{Scale: 1, Value: 11}, at, amqp.Table{"b": []byte{0, 1}}}, "n": math.NaN(),
			"t": time.Unix(at.UnixMilli(), 0), "x": "\xff"},
	} {
		if got := string(text(v)); got != want {
			t.Errorf("%v becomes %q, want %q", v, got, want)
		}
	}
}
