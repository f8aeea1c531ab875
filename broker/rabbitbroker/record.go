// This file encodes a message for RabbitMQ, and decodes it. The format is CloudEvents in binary mode, with
// AMQP's own fields.

package rabbitbroker

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/cloudevents"
	"github.com/skald-go/skald/internal/column"
)

const (
	prefix     = "cloudEvents_"
	altPrefix  = "cloudEvents:"
	maxShort   = 255       // maximum bytes of a field or of the name of a header
	maxHeaders = 120 << 10 // maximum bytes of all headers; they must fit into a frame of 128 KiB
)

// style describes the AMQP binding of CloudEvents in binary mode, which allows two prefixes. AMQP's own
// fields are for programs that do not support CloudEvents.
func style() cloudevents.Style {
	return cloudevents.Style{Prefixes: []string{prefix, altPrefix}, LastHeader: true, Plain: plain}
}

// codec returns the codec for Skald's format and, if e is not nil, for the format that e describes.
func codec(e *broker.Envelope) (*cloudevents.Codec, error) {
	if e != nil && e.ID == "position" {
		return nil, errors.New(
			"envelope: RabbitMQ has no position that stays: the id is header:NAME or json:FIELD, " +
				"or empty, for AMQP's message-id")
	}
	return cloudevents.New(style()).For(e)
}

// table collects the headers of a message.
type table amqp.Table

// Text adds a header. Text, Bytes and Time implement cloudevents.Headers.
func (t table) Text(name, value string)           { t[name] = value }
func (t table) Bytes(name string, value []byte)   { t[name] = string(value) }
func (t table) Time(name string, value time.Time) { t[name] = value.Format(time.RFC3339Nano) }

// encode encodes m. The result shares no memory with m.
func encode(codec *cloudevents.Codec, m *skald.Message) (amqp.Publishing, error) {
	p := amqp.Publishing{DeliveryMode: amqp.Persistent, Headers: amqp.Table{},
		ContentType: shortOrEmpty(m.ContentType), MessageId: shortOrEmpty(m.ID),
		CorrelationId: shortOrEmpty(m.CorrelationID),
		Type:          shortOrEmpty(m.Type)}
	if !m.Time.IsZero() {
		p.Timestamp = m.Time
	}
	rest := *m
	if p.ContentType != "" {
		rest.ContentType = ""
	}
	data, err := codec.Encode(&rest, table(p.Headers))
	if err != nil {
		return p, err
	}
	p.Body = bytes.Clone(data)
	size := 0
	for name, v := range p.Headers {
		size += len(name) + len(v.(string)) + 6
	}
	if size > maxHeaders {
		return p, fmt.Errorf("%w: its headers take %d bytes, and at most %d fit", cloudevents.ErrCannotCarry,
			size, maxHeaders)
	}
	return p, nil
}

// shortOrEmpty returns v if v fits into a field of AMQP, else "". It never shortens v, because a reader
// could not detect this.
func shortOrEmpty(v string) string {
	if len(v) > maxShort {
		return ""
	}
	return v
}

// plain returns true if RabbitMQ transports the header a unchanged, and Skald does not use its name.
func plain(a skald.Header) bool {
	ours := strings.HasPrefix(a.Name, prefix) || strings.HasPrefix(a.Name, altPrefix) ||
		strings.HasPrefix(a.Name, "Skald-")
	return len(a.Name) <= maxShort && !reserved(a.Name) && !ours
}

// reserved returns true if RabbitMQ or a plugin reacts to headers of that name, or writes them. CC copies a
// message into other queues, x-death ends a cycle of dead-lettering, and x-delay delays a message. The driver
// does not send a message's own headers with these names.
func reserved(name string) bool {
	switch name = strings.ToLower(name); name {
	case "cc", "bcc", "x-death", hDeliveries, hAcquired, "x-delay", "x-match", "x-exchange", "x-routing-key",
		"x-received-from", "x-shovelled", "x-shovelled-timestamp":
		return true
	}
	for _, prefix := range []string{"x-first-death-", "x-last-death-", "x-stream-", "x-opt-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// text returns the value of a received header as bytes.
func text(v any) []byte {
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		return []byte(v)
	case []byte:
		return v
	case time.Time:
		return []byte(timeText(v))
	case amqp.Table, []any:
		if out, err := json.Marshal(inJSON(v)); err == nil {
			return out
		}
	}
	return fmt.Append(nil, inJSON(v))
}

// inJSON converts v to a value that encoding/json can encode. Bytes and strings that are not UTF-8 become
// base64.
func inJSON(v any) any {
	switch v := v.(type) {
	case amqp.Decimal:
		return json.Number(decimal(v))
	case time.Time:
		return timeText(v)
	case string:
		if !utf8.ValidString(v) {
			return []byte(v)
		}
	case float32:
		if wide := float64(v); math.IsNaN(wide) || math.IsInf(wide, 0) {
			return fmt.Sprint(v)
		}
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Sprint(v)
		}
	case amqp.Table:
		out := make(map[string]any, len(v))
		for name, one := range v {
			out[name] = inJSON(one)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = inJSON(v[i])
		}
		return out
	}
	return v
}

// timeText formats a time of AMQP by RFC 3339. If RFC 3339 does not allow the year, it returns seconds since
// 1970.
func timeText(t time.Time) string {
	if at, ok := column.Time(t); ok {
		return at.Format(time.RFC3339Nano)
	}
	return strconv.FormatInt(t.Unix(), 10)
}

// decimal formats d with d.Scale digits after the point.
func decimal(d amqp.Decimal) string {
	digits, sign := strconv.FormatInt(int64(d.Value), 10), ""
	if d.Value < 0 {
		digits, sign = digits[1:], "-"
	}
	if d.Scale == 0 {
		return sign + digits
	}
	digits = strings.Repeat("0", max(0, int(d.Scale)+1-len(digits))) + digits
	at := len(digits) - int(d.Scale)
	return sign + digits[:at] + "." + digits[at:]
}

// decode decodes a message. If it is not a CloudEvent, decode uses the envelope of other programs, and then
// AMQP's own fields.
func decode(codec *cloudevents.Codec, topic string, d *amqp.Delivery) (m skald.Message, fault error) {
	m = skald.Message{Topic: topic, Data: d.Body}
	event := false
	hs := make([]skald.Header, 0, len(d.Headers))
	for name, value := range d.Headers {
		if !counts(name) {
			hs = append(hs, skald.Header{Name: name, Value: text(value)})
			event = event || codec.Attribute(name)
		}
	}
	// sorted, so that the result is the same if an attribute is present with both prefixes
	slices.SortFunc(hs, func(a, b skald.Header) int { return strings.Compare(a.Name, b.Name) })
	if fault = cloudevents.Decode(codec, hs, headerAt, &m, nil); fault == nil {
		fault = codec.Fill(&m)
	}
	m.ContentType = cmp.Or(m.ContentType, d.ContentType)
	if !event {
		m.ID, m.CorrelationID, m.Type = cmp.Or(m.ID, d.MessageId), d.CorrelationId, cmp.Or(m.Type, d.Type)
		at, ok := column.Time(d.Timestamp)
		if m.Time = at; !ok && fault == nil { // some programs send milliseconds instead of seconds
			m.Headers = append(m.Headers, skald.Header{Name: "timestamp",
				Value: strconv.AppendInt(nil, d.Timestamp.Unix(), 10)})
		}
	}
	if fault == nil {
		codec.Origin(&m, nil)
	}
	return m, fault
}

func headerAt(h *skald.Header) (string, []byte) { return h.Name, h.Value }

// counts returns true for headers in which a queue counts deliveries.
func counts(header string) bool { return header == hDeliveries || header == hAcquired }

const (
	hDeliveries = "x-delivery-count"
	hAcquired   = "x-acquired-count" // since RabbitMQ 4.3; also counts messages that were returned unhandled
)

// attempts returns the number of earlier deliveries of a message, as counted by the queue.
func attempts(h amqp.Table) int {
	for _, name := range []string{hAcquired, hDeliveries} {
		switch n := h[name].(type) {
		case int64:
			return int(n)
		case int32:
			return int(n)
		}
	}
	return 0
}
