package natsbroker

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

	"github.com/nats-io/nats.go"

	"github.com/skald-go/skald"
)

// The headers of the CloudEvents NATS binding, binary mode, with the extensions that Skald has on every broker. What
// NATS itself cannot carry has a header of Skald's: keys that are not text, data that is nil, and headers of a message
// whose names, bytes or order would not come out as they went in.
const (
	prefix  = "ce-"
	hSpec   = prefix + "specversion"
	hTime   = prefix + "time"
	hKey    = prefix + "partitionkey"
	hType   = "content-type"
	hRawKey = "Skald-Key"     // base64
	hNil    = "Skald-Nil"     // the data is nil, not empty
	hOrder  = "Skald-Headers" // JSON, [[name, base64], …]: all headers of the message, in order

	specVersion = "1.0"
)

var (
	errSpecVersion = errors.New("not a version of CloudEvents that this build reads")
	errNotText     = errors.New("not text")
	errCannotCarry = errors.New("it cannot be put on NATS")
)

// field is where the text of a header belongs; nil: it is not such a one.
func field(m *skald.Message, header string) *string {
	switch header {
	case prefix + "id":
		return &m.ID
	case prefix + "source":
		return &m.Source
	case prefix + "type":
		return &m.Type
	case prefix + "sequence":
		return &m.Sequence
	case prefix + "subject":
		return &m.Subject
	case prefix + "dataschema":
		return &m.Schema
	case prefix + "correlationid":
		return &m.CorrelationID
	case prefix + "causationid":
		return &m.CausationID
	case prefix + "traceparent":
		return &m.TraceParent
	case hType:
		return &m.ContentType
	}
	return nil
}

// encode is m as it travels; everything is copied.
func encode(m *skald.Message) (*nats.Msg, error) {
	h := nats.Header{}
	for _, name := range []string{"id", "source", "type", "sequence", "subject", "dataschema", "correlationid", "causationid", "traceparent"} {
		if v := *field(m, prefix+name); v != "" {
			h[prefix+name] = []string{escape(v)}
		}
	}
	switch c := m.ContentType; {
	case c == "":
	case printable(c) && !strings.Contains(c, "%"): // not of the envelope: as it is
		h[hType] = []string{c}
	default:
		h[hType] = []string{escape(c)}
	}
	if !m.Time.IsZero() {
		h[hTime] = []string{m.Time.UTC().Format(time.RFC3339Nano)}
	}
	event := m.ID != "" || m.Source != "" || m.Type != "" // else it is foreign, and stays as it came
	if event {
		h[hSpec] = []string{specVersion}
	}
	switch {
	case m.Key == nil:
	case event && len(m.Key) > 0 && utf8.Valid(m.Key):
		h[hKey] = []string{escape(string(m.Key))}
	default:
		h[hRawKey] = []string{base64.StdEncoding.EncodeToString(m.Key)}
	}
	if m.Data == nil {
		h[hNil] = []string{"1"}
	}
	if err := carry(h, m.Headers); err != nil {
		return nil, err
	}
	return &nats.Msg{Header: h, Data: bytes.Clone(m.Data)}, nil
}

// carry adds the headers of a message: as they are where NATS can hold them, so that anybody reads them, and beside
// that in one list if not all of them would come out as they are.
func carry(h nats.Header, hs []skald.Header) error {
	exact, last := true, ""
	for _, a := range hs {
		if !utf8.ValidString(a.Name) {
			return fmt.Errorf("%w: the name of header %q is not UTF-8", errCannotCarry, a.Name)
		}
		if !plain(a) || a.Name < last {
			exact = false
		}
		last = a.Name
	}
	for _, a := range hs {
		if plain(a) {
			h[a.Name] = append(h[a.Name], string(a.Value))
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
	h[hOrder] = []string{string(text)}
	return nil
}

// unnamed are the characters that nats.go takes in no name of a header: a message with one would never be sent.
const unnamed = "\"()/,:;<=>?@[\\]{}"

// plain says whether NATS carries a as it is. A header that NATS itself obeys (Nats-Rollup empties a stream) never
// comes from a message, and neither does one that would be read as part of the envelope.
func plain(a skald.Header) bool {
	if len(a.Name) == 0 || ours(a.Name) || reserved(a.Name) {
		return false
	}
	for _, c := range []byte(a.Name) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte(unnamed, c) >= 0 {
			return false
		}
	}
	return printable(string(a.Value))
}

// printable is what comes out of a header line as it went in.
func printable(v string) bool {
	control := func(c rune) bool { return c < ' ' || c == 0x7f }
	return strings.TrimSpace(v) == v && utf8.ValidString(v) && !strings.ContainsFunc(v, control)
}

// ours are the headers of the envelope.
func ours(name string) bool {
	return field(&skald.Message{}, name) != nil || name == hSpec || name == hTime || name == hKey || name == hRawKey || name == hNil || name == hOrder
}

// reserved are NATS's own, whatever their case, and those that nats.go makes of a status.
func reserved(name string) bool {
	return len(name) >= 5 && strings.EqualFold(name[:5], "nats-") || name == "Status" || name == "Description"
}

// escape writes v as the binding wants it: visible ASCII, all else by percent.
func escape(v string) string {
	clean := func(c byte) bool { return c > ' ' && c < 0x7f && c != '"' && c != '%' }
	for i := range len(v) {
		if !clean(v[i]) {
			var out strings.Builder
			for _, c := range []byte(v) {
				if clean(c) {
					out.WriteByte(c)
				} else {
					fmt.Fprintf(&out, "%%%02X", c)
				}
			}
			return out.String()
		}
	}
	return v
}

// unescape is the way back; what is no escape stays as it is, for not everybody writes them.
func unescape(v string) string {
	if !strings.Contains(v, "%") {
		return v
	}
	out := make([]byte, 0, len(v))
	for i := 0; i < len(v); i++ {
		if v[i] == '%' && i+2 < len(v) {
			hi, lo := unhex(v[i+1]), unhex(v[i+2])
			if hi >= 0 && lo >= 0 {
				out = append(out, byte(hi<<4|lo))
				i += 2
				continue
			}
		}
		out = append(out, v[i])
	}
	return string(out)
}

func unhex(c byte) int { return strings.IndexByte("0123456789ABCDEF", c&^(c&0x40>>1)) }

// decode is the way back. What says nothing to Skald stays among the message's headers, by name. An error is a broken
// envelope: then all headers are kept as they came.
func decode(name string, h nats.Header, data []byte) (m skald.Message, fault error) {
	m = skald.Message{Topic: name, Data: data}
	if m.Data == nil {
		m.Data = []byte{}
	}
	if h.Get(hNil) != "" && len(data) == 0 {
		m.Data = nil
	}
	bad := "" // the first by name, so that it is always the same
	for name, values := range h {
		if reserved(name) {
			continue
		}
		for i, v := range values {
			kept, err := attribute(&m, name, v)
			if err != nil && (fault == nil || name < bad) {
				fault, bad = fmt.Errorf("read the envelope: header %s: %w", name, err), name
			}
			if !kept || i > 0 {
				m.Headers = append(m.Headers, skald.Header{Name: name, Value: []byte(v)})
			}
		}
	}
	if fault != nil {
		m.Headers = asTheyCame(h)
		return m, fault
	}
	slices.SortStableFunc(m.Headers, func(a, b skald.Header) int { return strings.Compare(a.Name, b.Name) })
	m.Headers, fault = ordered(m.Headers, h.Get(hOrder))
	return m, fault
}

// asTheyCame are all headers that are not the server's or Skald's own.
func asTheyCame(h nats.Header) (out []skald.Header) {
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if reserved(name) || name == hRawKey || name == hNil || name == hOrder {
			continue
		}
		for _, v := range h[name] {
			out = append(out, skald.Header{Name: name, Value: []byte(v)})
		}
	}
	return out
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
func attribute(m *skald.Message, name, value string) (kept bool, err error) {
	switch name {
	case hSpec:
		if value != specVersion {
			return false, fmt.Errorf("%q: %w", value, errSpecVersion)
		}
		return true, nil
	case hTime:
		m.Time, err = time.Parse(time.RFC3339Nano, unescape(value))
		return err == nil, err
	case hNil, hOrder:
		return true, nil
	case hRawKey:
		m.Key, err = base64.StdEncoding.DecodeString(value)
		return err == nil, err
	case hKey:
		if m.Key == nil {
			m.Key = []byte(unescape(value))
		}
		return true, nil
	}
	f := field(m, name)
	if f == nil || *f != "" || value == "" {
		return false, nil
	}
	s := unescape(value)
	if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
		if name == hType { // not of the envelope
			return false, nil
		}
		return false, errNotText
	}
	*f = s
	return true, nil
}
