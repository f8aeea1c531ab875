package rabbitbroker

import (
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
