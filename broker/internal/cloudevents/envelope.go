// This file reads and writes the envelopes of existing topics (broker.Envelope).

package cloudevents

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/fingerprint"
)

// ParseEnvelope parses the option envelope of a broker's URL: "cloudevents", "off", or places such as
// "id:header:message-id,type:json:kind". It returns nil for CloudEvents.
func ParseEnvelope(s string) (*broker.Envelope, error) {
	switch s {
	case "", "cloudevents":
		return nil, nil
	case "off":
		return &broker.Envelope{}, nil
	}
	out := &broker.Envelope{}
	for _, part := range strings.Split(s, ",") {
		name, place, _ := strings.Cut(part, ":")
		fields := map[string]*string{"id": &out.ID, "type": &out.Type, "key": &out.Key, "source": &out.Source}
		field := fields[name]
		if field == nil || place == "" {
			const want = "cloudevents, off, or id:PLACE,type:PLACE,key:PLACE,source:TEXT"
			return nil, fmt.Errorf("envelope is "+want+", not %q", s)
		}
		*field = place
	}
	return out, nil
}

// places is a parsed broker.Envelope.
type places struct {
	id, kind, key       place
	byPosition, byTopic bool
	source              string
}

// place is the place of one attribute; at most one of its fields is set.
type place struct{ header, field string }

// For returns a codec that writes the envelope e. It reads attributes from CloudEvents headers first, and
// then from e. If e is nil, it returns c.
func (c *Codec) For(e *broker.Envelope) (*Codec, error) {
	if e == nil {
		return c, nil
	}
	p := &places{source: e.Source, byPosition: e.ID == "position", byTopic: e.Type == "topic"}
	for _, a := range []struct {
		name, text string
		elsewhere  bool // the attribute has no header or field
		to         *place
	}{{"ID", e.ID, p.byPosition, &p.id}, {"Type", e.Type, p.byTopic, &p.kind},
		{"Key", e.Key, false, &p.key}} {
		kind, at, _ := strings.Cut(a.text, ":")
		switch {
		case a.text == "" || a.elsewhere:
		case kind == "header" && at != "" && !c.named(at):
			return nil,
				fmt.Errorf("envelope: the place of %s is header %q: the broker cannot carry it, "+
					"or uses it itself", a.name, at)
		case kind == "header" && at != "":
			a.to.header = at
		case kind == "json" && at != "":
			a.to.field = at
		default:
			return nil, fmt.Errorf("envelope: the place of %s is header:NAME or json:FIELD, not %q",
				a.name, a.text)
		}
	}
	out := *c
	out.places = p
	return &out, nil
}

// named returns true if a header of that name can contain an attribute.
func (c *Codec) named(header string) bool {
	return c.style.Exact || c.plain(skald.Header{Name: header})
}

// Mapped returns true if the codec has an Envelope.
func (c *Codec) Mapped() bool { return c.places != nil }

type placed struct {
	place place
	value string
	as    attribute
}

func (p *places) of(m *skald.Message) [3]placed {
	return [3]placed{{p.id, m.ID, id}, {p.kind, m.Type, kind}, {p.key, string(m.Key), key}}
}

// writeTombstone writes the id and the type of a message without data (a tombstone) as CloudEvents
// attributes, if their place is a JSON field. A tombstone has no fields, and all readers also read
// CloudEvents. The key is sent separately.
func (c *Codec) writeTombstone(m *skald.Message, to Headers) {
	for _, a := range c.places.of(m) {
		if m.Data == nil && a.place.field != "" && a.value != "" && a.as != key {
			to.Text(c.names[a.as], c.escaped(a.as, a.value))
		}
	}
}

// mapped encodes m in the format of the Envelope.
func (c *Codec) mapped(m *skald.Message, to Headers) (data []byte, err error) {
	p, own := c.places, m.Headers
	if err := c.misread(m); err != nil {
		return nil, err
	}
	if p.byTopic && m.Type != "" && m.Type != m.Topic {
		return nil, fmt.Errorf("%w: the envelope maps the type to the topic, but the type is %q",
			ErrCannotCarry, m.Type)
	}
	written := map[string]string{}
	for _, a := range p.of(m) {
		name := a.place.header
		if name == "" || a.value == "" || written[name] != "" { // one place for two attributes
			continue
		}
		if !c.style.Exact && !(isText(a.value) && c.plain(skald.Header{Name: name, Value: []byte(a.value)})) {
			return nil,
				fmt.Errorf("%w: the envelope maps to header %s, which cannot carry %q unchanged",
					ErrCannotCarry, name, a.value)
		}
		written[name] = a.value
		to.Text(name, a.value)
	}
	c.writeTombstone(m, to)
	data, keyed, err := p.data(m)
	if err != nil {
		return nil, err
	}
	if !c.style.Exact {
		if keyed = keyed || len(m.Key) > 0 && written[p.key.header] == string(m.Key); !keyed {
			c.writeRawKey(m.Key, to)
		}
		if m.Data == nil {
			to.Text(NilData, "1")
		}
		own = p.unreplaced(m)
	}
	if c.style.Exact {
		for i := range own {
			to.Bytes(own[i].Name, own[i].Value)
		}
		return data, namesAreText(own)
	}
	return data, c.writeOwn(own, to)
}

// misread returns an error if a reader would decode m's own headers as CloudEvents attributes with other
// values. It accepts headers with the same values, which m has if it was received.
func (c *Codec) misread(m *skald.Message) error {
	if !c.style.Exact || m.ID == "" && m.Source == "" && m.Type == "" {
		return nil
	}
	var read skald.Message
	for _, h := range m.Headers {
		a, ours := c.byName[h.Name]
		if !ours || a == content {
			if h.Name == Ordered && unfolds(string(h.Value)) {
				return fmt.Errorf("%w: its own header %s would be read as a list of headers",
					ErrCannotCarry, h.Name)
			}
			continue
		}
		_, err := take(c, a, &read, nil, h.Value)
		f, is := field(&read, a), field(m, a)
		if err != nil || f != nil && a <= kind && *f != "" && *f != *is {
			return fmt.Errorf("%w: its own header %s would be read as a CloudEvents attribute with another value", ErrCannotCarry, h.Name)
		}
	}
	return nil
}

// writeRawKey writes a key that is in no attribute. It writes no header for a nil key.
func (c *Codec) writeRawKey(key []byte, to Headers) {
	switch {
	case key == nil:
	case c.style.Escapes:
		to.Text(RawKey, base64.StdEncoding.EncodeToString(key))
	default:
		to.Bytes(RawKey, key)
	}
}

// unreplaced returns m's own headers without those that an attribute replaces, because some brokers do not
// keep two headers with the same name in order.
func (p *places) unreplaced(m *skald.Message) []skald.Header {
	taken := func(h skald.Header) bool {
		for _, a := range p.of(m) {
			if a.value != "" && a.place.header == h.Name && h.Name != "" {
				return true
			}
		}
		return false
	}
	if !slices.ContainsFunc(m.Headers, taken) {
		return m.Headers
	}
	return slices.DeleteFunc(slices.Clone(m.Headers), taken)
}

func (p *places) inJSON() bool { return p.id.field != "" || p.kind.field != "" || p.key.field != "" }

// data returns m's data, with the attributes that belong into JSON fields. keyed is true if the data contains
// the key.
func (p *places) data(m *skald.Message) (data []byte, keyed bool, err error) {
	if !p.inJSON() || m.Data == nil { // a message without data has no fields
		return m.Data, false, nil
	}
	object, err := fields(m.Data)
	if err != nil {
		return nil, false, fmt.Errorf("%w: the envelope maps to a field of the value: %w",
			ErrCannotCarry, err)
	}
	empty := len(object) == 0
	var added bytes.Buffer
	for _, a := range p.of(m) {
		if a.place.field == "" || a.value == "" {
			continue
		}
		if is, there := object[a.place.field]; there {
			// The key may differ here, because it is also sent elsewhere.
			if v, err := scalar(is); (v == "" || err != nil) && a.place != p.key {
				return nil, false, fmt.Errorf("%w: the envelope maps to field %q of the value, which exists and is neither a string nor a number",
					ErrCannotCarry, a.place.field)
			}
			continue
		}
		if !utf8.ValidString(a.value) {
			return nil, false,
				fmt.Errorf("%w: the envelope maps to field %q of the value, but the attribute is not text",
					ErrCannotCarry, a.place.field)
		}
		if added.Len() > 0 {
			added.WriteByte(',')
		}
		name, _ := json.Marshal(a.place.field)
		value, _ := json.Marshal(a.value)
		added.Write(name)
		added.WriteByte(':')
		added.Write(value)
		object[a.place.field] = value
	}
	if p.key.field != "" && len(m.Key) > 0 { // the existing field may differ from the key
		v, err := scalar(object[p.key.field])
		keyed = err == nil && v == string(m.Key)
	}
	if added.Len() == 0 {
		return m.Data, keyed, nil
	}
	if !empty {
		added.WriteByte(',')
	}
	open := bytes.IndexByte(m.Data, '{') + 1
	return bytes.Join([][]byte{m.Data[:open], added.Bytes(), m.Data[open:]}, nil), keyed, nil
}

func fields(data []byte) (map[string]json.RawMessage, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(data, &object); err != nil || object == nil {
		return nil, errors.New("the value is not a JSON object")
	}
	return object, nil
}

// Fill reads the attributes that Decode has not found from the places of the Envelope. An error means that
// the envelope is broken.
func (c *Codec) Fill(m *skald.Message) error {
	p := c.places
	if p == nil {
		return nil
	}
	var object map[string]json.RawMessage
	asked := p.id.field != "" && m.ID == "" || p.kind.field != "" && m.Type == "" ||
		p.key.field != "" && m.Key == nil
	if asked && m.Data != nil && (c.style.Exact || len(m.Data) > 0) { // otherwise empty data may be nil
		var err error
		if object, err = fields(m.Data); err != nil {
			return fmt.Errorf("read the envelope: the envelope maps to a field of the value: %w", err)
		}
	}
	key := string(m.Key)
	for _, a := range []struct {
		place place
		known bool
		to    *string
	}{{p.id, m.ID != "", &m.ID}, {p.kind, m.Type != "", &m.Type}, {p.key, m.Key != nil, &key}} {
		if a.known {
			continue
		}
		v, err := a.place.value(m, object)
		if err != nil {
			return fmt.Errorf("read the envelope: %w", err)
		}
		*a.to = v
	}
	if m.Key == nil && key != "" {
		m.Key = []byte(key)
	}
	if m.Type == "" && p.byTopic {
		m.Type = m.Topic
	}
	return nil
}

// Origin sets a missing id to the position, if Envelope.ID is "position". It sets the source of a message
// that has an id and no source. position returns the position of the message.
func (c *Codec) Origin(m *skald.Message, position func() string) {
	p := c.places
	if p == nil {
		return
	}
	if m.ID == "" && p.byPosition {
		m.ID = position()
	}
	if m.Source == "" && m.ID != "" {
		if m.Source = p.source; m.Source == "" {
			m.Source = m.Topic
		}
	}
}

// value returns the value at p, or "" if there is none. The header stays in m.Headers, because it is a header
// of the other program.
func (p place) value(m *skald.Message, object map[string]json.RawMessage) (string, error) {
	for _, h := range m.Headers {
		if p.header == "" || h.Name != p.header {
			continue
		}
		if !isText(string(h.Value)) {
			return "", fmt.Errorf("header %s: %w", h.Name, ErrNotText)
		}
		return string(h.Value), nil
	}
	if p.field == "" {
		return "", nil
	}
	v, err := scalar(object[p.field])
	if err != nil {
		return "", fmt.Errorf("field %q: %w", p.field, err)
	}
	return v, nil
}

// scalar returns a JSON string or number as text. It returns "" for other values.
func scalar(raw json.RawMessage) (string, error) {
	if len(raw) == 0 {
		return "", nil
	}
	switch raw[0] {
	case '"':
		var s string
		err := cmp.Or(fingerprint.CheckJSON(raw), json.Unmarshal(raw, &s))
		if err == nil && strings.ContainsRune(s, 0) {
			err = ErrNotText
		}
		if err != nil {
			return "", err
		}
		return s, nil
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return string(raw), nil
	}
	return "", nil
}

func isText(v string) bool { return utf8.ValidString(v) && strings.IndexByte(v, 0) < 0 }
