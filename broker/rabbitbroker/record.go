// This file is how a message travels through RabbitMQ: as a CloudEvent in binary mode, beside AMQP's
// own fields.

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
	maxShort   = 255       // bytes in a field or in the name of a header
	maxHeaders = 120 << 10 // all headers must fit into one frame, of 128 KiB
)

// style is the CloudEvents AMQP binding, binary mode, which allows two prefixes. AMQP's own fields stand
// beside it for whoever knows no CloudEvents.
func style() cloudevents.Style {
	return cloudevents.Style{Prefixes: []string{prefix, altPrefix}, Once: true, Plain: plain}
}

// codec writes and reads messages as Skald has them, and as e says; nil: as Skald alone.
func codec(e *broker.Envelope) (*cloudevents.Codec, error) {
	if e != nil && e.ID == "position" {
		return nil, errors.New(
			"envelope: RabbitMQ has no position that stays: the id is header:NAME or json:FIELD, " +
				"or empty, for AMQP's message-id")
	}
	return cloudevents.New(style()).For(e)
}

// table takes what a message has in headers.
type table amqp.Table

// Text, Bytes and Time write a header; see cloudevents.Headers.
func (t table) Text(name, value string)           { t[name] = value }
func (t table) Bytes(name string, value []byte)   { t[name] = string(value) }
func (t table) Time(name string, value time.Time) { t[name] = value.Format(time.RFC3339Nano) }

// encode is m as it travels; everything is copied.
func encode(codec *cloudevents.Codec, m *skald.Message) (amqp.Publishing, error) {
	p := amqp.Publishing{DeliveryMode: amqp.Persistent, Headers: amqp.Table{},
		ContentType: short(m.ContentType), MessageId: short(m.ID), CorrelationId: short(m.CorrelationID),
		Type: short(m.Type)}
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

// short is v where it fits into a field; a field is read as it stands, so it holds no part.
func short(v string) string {
	if len(v) > maxShort {
		return ""
	}
	return v
}

// plain says whether RabbitMQ carries a as it is.
func plain(a skald.Header) bool {
	ours := strings.HasPrefix(a.Name, prefix) || strings.HasPrefix(a.Name, altPrefix) ||
		strings.HasPrefix(a.Name, "Skald-")
	return len(a.Name) <= maxShort && !obeyed(a.Name) && !ours
}

// obeyed tells whether RabbitMQ or one of its plugins acts on a header of that name, or writes it itself: CC
// copies a message into other queues, x-death ends a cycle of dead-lettering, x-delay holds a message back.
// No header of a message travels under such a name.
func obeyed(name string) bool {
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

// text is what a header's value is to a reader of bytes.
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

// inJSON returns v with each value as JSON holds it. Bytes and strings that are not UTF-8 become base64.
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

// timeText is a time of AMQP. Years that RFC 3339 does not have are written as seconds since 1970.
func timeText(t time.Time) string {
	if at, ok := column.Time(t); ok {
		return at.Format(time.RFC3339Nano)
	}
	return strconv.FormatInt(t.Unix(), 10)
}

// decimal writes d with its point: Scale digits follow it.
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

// decode is the way back. What is no CloudEvent is read by the envelope of others, if the codec has one, and
// then by AMQP's own fields.
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
	// one attribute may be there under both prefixes
	slices.SortFunc(hs, func(a, b skald.Header) int { return strings.Compare(a.Name, b.Name) })
	if fault = cloudevents.Decode(codec, hs, headerAt, &m, nil); fault == nil {
		fault = codec.Fill(&m)
	}
	m.ContentType = cmp.Or(m.ContentType, d.ContentType)
	if !event {
		m.ID, m.CorrelationID, m.Type = cmp.Or(m.ID, d.MessageId), d.CorrelationId, cmp.Or(m.Type, d.Type)
		at, ok := column.Time(d.Timestamp)
		if m.Time = at; !ok && fault == nil { // some write milliseconds where AMQP has seconds
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

// counts are headers that a queue adds by itself, about how often it delivered.
func counts(header string) bool { return header == hDeliveries || header == hAcquired }

const (
	hDeliveries = "x-delivery-count"
	hAcquired   = "x-acquired-count" // of RabbitMQ 4.3: with hand-overs in peace
)

// attempts is how often the queue delivered a message before.
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
