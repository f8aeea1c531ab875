package rabbitbroker

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/skald-go/skald"
)

// The headers of the CloudEvents AMQP binding, binary mode, with the extensions that Skald has on every broker, and AMQP's
// own fields beside them for whoever knows no CloudEvents. What a table of headers cannot carry has a header of Skald's:
// keys that are not text, data that is nil, and headers of a message that repeat, are not sorted, or would order RabbitMQ something.
const (
	prefix    = "cloudEvents_"
	altPrefix = "cloudEvents:" // the binding allows both
	hSpec     = "specversion"
	hTime     = "time"
	hKey      = "partitionkey"
	hType     = "datacontenttype" // where the field content-type is too short
	hRawKey   = "Skald-Key"
	hNil      = "Skald-Nil"     // the data is nil, not empty
	hOrder    = "Skald-Headers" // JSON, [[name, base64], …]: all headers of the message, in order

	specVersion = "1.0"
	maxShort    = 255       // bytes in a field or in the name of a header
	maxHeaders  = 120 << 10 // all headers must fit into one frame, of 128 KiB
)

var (
	errSpecVersion = errors.New("not a version of CloudEvents that this build reads")
	errNotText     = errors.New("not text")
	errCannotCarry = errors.New("it cannot be put on RabbitMQ")
)

// attributes are those that are text, in the envelope.
func attributes() []string {
	return []string{"id", "source", "type", "sequence", "subject", "dataschema", "correlationid", "causationid", "traceparent"}
}

// field is where the text of an attribute belongs; nil: it is not such a one.
func field(m *skald.Message, attribute string) *string {
	switch attribute {
	case "id":
		return &m.ID
	case "source":
		return &m.Source
	case "type":
		return &m.Type
	case "sequence":
		return &m.Sequence
	case "subject":
		return &m.Subject
	case "dataschema":
		return &m.Schema
	case "correlationid":
		return &m.CorrelationID
	case "causationid":
		return &m.CausationID
	case "traceparent":
		return &m.TraceParent
	case hType:
		return &m.ContentType
	}
	return nil
}

// attributeOf is the name of the attribute that a header holds.
func attributeOf(header string) (string, bool) {
	if name, ok := strings.CutPrefix(header, prefix); ok {
		return name, true
	}
	return strings.CutPrefix(header, altPrefix)
}

// encode is m as it travels; everything is copied.
func encode(m *skald.Message) (amqp.Publishing, error) {
	p := amqp.Publishing{DeliveryMode: amqp.Persistent, Headers: amqp.Table{}, Body: bytes.Clone(m.Data)}
	for _, name := range attributes() {
		if v := *field(m, name); v != "" {
			p.Headers[prefix+name] = v
		}
	}
	p.ContentType, p.MessageId, p.CorrelationId, p.Type = short(m.ContentType), short(m.ID), short(m.CorrelationID), short(m.Type)
	if p.ContentType != m.ContentType {
		p.Headers[prefix+hType] = m.ContentType
	}
	if !m.Time.IsZero() {
		p.Headers[prefix+hTime] = m.Time.UTC().Format(time.RFC3339Nano)
		p.Timestamp = m.Time
	}
	event := m.ID != "" || m.Source != "" || m.Type != "" // else it is foreign, and stays as it came
	if event {
		p.Headers[prefix+hSpec] = specVersion
	}
	switch {
	case m.Key == nil:
	case event && len(m.Key) > 0 && utf8.Valid(m.Key):
		p.Headers[prefix+hKey] = string(m.Key)
	default:
		p.Headers[hRawKey] = string(m.Key)
	}
	if m.Data == nil {
		p.Headers[hNil] = "1"
	}
	if err := carry(p.Headers, m.Headers); err != nil {
		return p, err
	}
	size := 0
	for name, v := range p.Headers {
		size += len(name) + len(v.(string)) + 6
	}
	if size > maxHeaders {
		return p, fmt.Errorf("%w: its headers take %d bytes, and at most %d fit", errCannotCarry, size, maxHeaders)
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

// carry adds the headers of a message: as they are where a table can hold them, so that anybody reads them, and beside
// that in one list if not all of them would come out as they are.
func carry(table amqp.Table, hs []skald.Header) error {
	exact, last := true, ""
	for i, a := range hs {
		if !utf8.ValidString(a.Name) {
			return fmt.Errorf("%w: the name of header %q is not UTF-8", errCannotCarry, a.Name)
		}
		if !plain(a.Name) || i > 0 && a.Name <= last {
			exact = false
		}
		last = a.Name
	}
	for _, a := range hs {
		if plain(a.Name) {
			table[a.Name] = string(a.Value)
		}
	}
	if exact {
		return nil
	}
	list := make([][2]string, len(hs))
	for i, a := range hs {
		list[i] = [2]string{a.Name, base64.StdEncoding.EncodeToString(a.Value)}
	}
	text, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("%w: headers: %w", errCannotCarry, err)
	}
	table[hOrder] = string(text)
	return nil
}

// plain says whether a header of that name is carried as it is. A header that RabbitMQ itself obeys (CC copies a message into other queues)
// never comes from a message, and neither does one that would be read as part of the envelope.
func plain(name string) bool {
	_, ours := attributeOf(name)
	return name != "" && len(name) <= maxShort && !ours && !strings.HasPrefix(name, "Skald-") && !obeyed(name)
}

func obeyed(name string) bool {
	return name == "CC" || name == "BCC" || strings.HasPrefix(strings.ToLower(name), "x-")
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
		return []byte(v.UTC().Format(time.RFC3339Nano))
	case amqp.Table, []any:
		if out, err := json.Marshal(v); err == nil {
			return out
		}
	}
	return fmt.Append(nil, v)
}

// decode is the way back. What says nothing to Skald stays among the message's headers, by name. An error is a broken
// envelope: then all headers are kept as they came.
func decode(name string, d *amqp.Delivery) (m skald.Message, fault error) {
	m = skald.Message{Topic: name, Data: d.Body, ContentType: d.ContentType}
	if m.Data == nil {
		m.Data = []byte{}
	}
	if d.Headers[hNil] != nil && len(d.Body) == 0 {
		m.Data = nil
	}
	var rest, all []skald.Header
	event := false
	for _, header := range slices.Sorted(maps.Keys(d.Headers)) {
		if counts(header) {
			continue
		}
		one := skald.Header{Name: header, Value: text(d.Headers[header])}
		_, ours := attributeOf(header)
		event = event || ours
		kept, err := attribute(&m, header, one.Value)
		if err != nil && fault == nil {
			fault = fmt.Errorf("read the envelope: header %s: %w", header, err)
		}
		if !kept {
			rest = append(rest, one)
		}
		if header != hRawKey && header != hNil && header != hOrder {
			all = append(all, one)
		}
	}
	if !event {
		m.ID, m.CorrelationID, m.Type, m.Time = d.MessageId, d.CorrelationId, d.Type, d.Timestamp
	}
	if fault != nil {
		m.Headers = all
		return m, fault
	}
	order, _ := d.Headers[hOrder].(string)
	m.Headers, fault = ordered(rest, order)
	return m, fault
}

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

// ordered are the headers of a message by its own list, and behind them what others have added on the way.
func ordered(rest []skald.Header, list string) ([]skald.Header, error) {
	if list == "" {
		return rest, nil
	}
	var told [][2]string
	if err := json.Unmarshal([]byte(list), &told); err != nil {
		return rest, fmt.Errorf("read the envelope: header %s: %w", hOrder, err)
	}
	var out []skald.Header
	known := map[string]bool{}
	for _, t := range told {
		v, err := base64.StdEncoding.DecodeString(t[1])
		if err != nil {
			return rest, fmt.Errorf("read the envelope: header %s: %w", hOrder, err)
		}
		out = append(out, skald.Header{Name: t[0], Value: v})
		known[t[0]] = true
	}
	for _, r := range rest {
		if !known[r.Name] {
			out = append(out, r)
		}
	}
	return out, nil
}

// attribute puts a header into its field.
func attribute(m *skald.Message, header string, value []byte) (kept bool, err error) {
	switch header {
	case hNil, hOrder:
		return true, nil
	case hRawKey:
		m.Key = value
		return true, nil
	}
	name, ok := attributeOf(header)
	switch {
	case !ok:
		return false, nil
	case name == hSpec:
		if string(value) != specVersion {
			return false, fmt.Errorf("%q: %w", value, errSpecVersion)
		}
		return true, nil
	case name == hTime:
		m.Time, err = time.Parse(time.RFC3339Nano, string(value))
		return err == nil, err
	case name == hKey:
		if m.Key == nil {
			m.Key = value
		}
		return true, nil
	}
	f := field(m, name)
	if f == nil || len(value) == 0 {
		return false, nil
	}
	if !utf8.Valid(value) || slices.Contains(value, 0) {
		return false, errNotText
	}
	*f = string(value)
	return true, nil
}
