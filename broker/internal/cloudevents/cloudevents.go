// Package cloudevents maps messages to headers of a broker and back. The format is CloudEvents in binary
// mode, with the extensions partitionkey, sequence, correlationid, causationid and traceparent. A Style
// describes the differences between brokers. The file envelope.go supports the headers and JSON fields of
// existing topics.
//
// There are two kinds of traceparent. The attribute is the trace that created the message. A plain header
// traceparent is the trace of one hop, and is one of the message's own headers.
package cloudevents

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/skald-go/skald"
)

// Headers that Skald adds if Style.Exact is false.
const (
	RawKey  = "Skald-Key"     // the key, if partitionkey cannot represent it
	NilData = "Skald-Nil"     // present if the data is nil, not empty
	Ordered = "Skald-Headers" // all headers of the message, in order, as JSON: [[name, base64], …]
)

const specVersion = "1.0"

var (
	// ErrCannotCarry is wrapped by errors about a message that the broker cannot transport unchanged. A retry
	// fails too.
	ErrCannotCarry = errors.New("the broker cannot carry it")
	// ErrNotText is wrapped by errors about an attribute that is not UTF-8, or contains a zero byte.
	ErrNotText = errors.New("not text")

	errSpecVersion = errors.New("not a version of CloudEvents that this build reads")
)

// Style describes the headers of one broker.
type Style struct {
	// Prefixes has the prefixes of attribute names. Encode writes the first prefix, and Decode reads all.
	Prefixes []string
	// ContentType is the name of the header of the content type, without a prefix. If it is empty, the
	// attribute datacontenttype is used.
	ContentType string
	// Exact is true if the broker transports keys, distinguishes nil from empty data, and keeps all headers
	// in order. Otherwise the headers RawKey, NilData and Ordered are used.
	Exact bool
	// LastHeader is true if the broker transports only one header with each name. It has no effect if Exact
	// is true.
	LastHeader bool
	// Escapes is true if values must be percent-encoded as visible ASCII. A raw key is then in base64.
	Escapes bool
	// Plain returns true if the broker transports a header unchanged. It is not called if Exact is true, or
	// for headers of the envelope.
	Plain func(skald.Header) bool
}

type attribute int

const (
	version attribute = iota // headers are written in this order
	id
	source
	kind
	instant
	key
	sequence
	content
	subject
	schema
	correlation
	causation
	trace
	attributes // number of attributes
)

// Codec encodes and decodes one Style. It is immutable, and safe for concurrent use.
type Codec struct {
	style  Style
	names  [attributes]string
	byName map[string]attribute
	places *places // nil if there is no Envelope
}

// New returns a codec for the style s.
func New(s Style) *Codec {
	c := &Codec{style: s, byName: map[string]attribute{}}
	bare := [attributes]string{"specversion", "id", "source", "type", "time", "partitionkey", "sequence",
		"datacontenttype", "subject",
		"dataschema", "correlationid", "causationid", "traceparent"}
	for a, name := range bare {
		for i, prefix := range s.Prefixes {
			if a := attribute(a); a != content || s.ContentType == "" {
				if c.byName[prefix+name] = a; i == 0 {
					c.names[a] = prefix + name
				}
			}
		}
	}
	if s.ContentType != "" {
		c.names[content], c.byName[s.ContentType] = s.ContentType, content
	}
	return c
}

// Attribute returns true if a header of that name is a CloudEvents attribute.
func (c *Codec) Attribute(header string) bool {
	for _, prefix := range c.style.Prefixes {
		if strings.HasPrefix(header, prefix) {
			return true
		}
	}
	return false
}

// field returns the field of m for a text attribute, or nil if the attribute is not text.
func field(m *skald.Message, a attribute) *string {
	switch a {
	case id:
		return &m.ID
	case source:
		return &m.Source
	case kind:
		return &m.Type
	case sequence:
		return &m.Sequence
	case content:
		return &m.ContentType
	case subject:
		return &m.Subject
	case schema:
		return &m.Schema
	case correlation:
		return &m.CorrelationID
	case causation:
		return &m.CausationID
	case trace:
		return &m.TraceParent
	}
	return nil
}

// Headers receives the headers of a message. Its methods must copy the values.
type Headers interface {
	Text(name, value string)
	Bytes(name string, value []byte)
	Time(name string, value time.Time) // value is in UTC; the format is RFC 3339
}

// Encode writes the headers of m, and returns the data to send. Its errors wrap ErrCannotCarry. A message
// without an id, a source and a type is not from Skald; Encode writes it unchanged.
func (c *Codec) Encode(m *skald.Message, to Headers) (data []byte, err error) {
	if c.places != nil {
		return c.mapped(m, to)
	}
	event := m.ID != "" || m.Source != "" || m.Type != ""
	named := event && len(m.Key) > 0 && utf8.Valid(m.Key)
	for a := range attributes {
		switch f := field(m, a); {
		case f != nil:
			if *f != "" {
				to.Text(c.names[a], c.escaped(a, *f))
			}
		case a == version && event:
			to.Text(c.names[a], specVersion)
		case a == instant && !m.Time.IsZero():
			to.Time(c.names[a], m.Time.UTC())
		case a == key && named && c.style.Escapes:
			to.Text(c.names[a], escape(string(m.Key)))
		case a == key && named:
			to.Bytes(c.names[a], m.Key)
		}
	}
	if !c.style.Exact {
		if !named {
			c.writeRawKey(m.Key, to)
		}
		if m.Data == nil {
			to.Text(NilData, "1")
		}
	}
	if c.style.Exact && !event {
		for i := range m.Headers {
			to.Bytes(m.Headers[i].Name, m.Headers[i].Value)
		}
		return m.Data, namesAreText(m.Headers)
	}
	return m.Data, c.writeOwn(m.Headers, to)
}

func (c *Codec) escaped(a attribute, v string) string {
	if !c.style.Escapes || a == content && c.style.ContentType != "" && Printable(v) &&
		!strings.Contains(v, "%") {
		return v // a content-type header without prefix is not escaped
	}
	return escape(v)
}

// namesAreText returns an error if the name of a header is not UTF-8. No broker transports such a name.
func namesAreText(hs []skald.Header) error {
	for i := range hs {
		if !utf8.ValidString(hs[i].Name) {
			return fmt.Errorf("%w: the name of header %q is not UTF-8", ErrCannotCarry, hs[i].Name)
		}
	}
	return nil
}

// writeOwn writes the message's own headers. It writes a header directly if the broker transports it
// unchanged, so that any client can read it. If this does not preserve all headers and their order, writeOwn
// also writes all headers as one list.
func (c *Codec) writeOwn(hs []skald.Header, to Headers) error {
	if err := namesAreText(hs); err != nil {
		return err
	}
	exact, last := true, ""
	for i := range hs {
		h := &hs[i]
		if c.plain(*h) {
			to.Bytes(h.Name, h.Value)
		} else {
			exact = false
		}
		exact = exact && (c.style.Exact || h.Name >= last && (i == 0 || h.Name != last ||
			!c.style.LastHeader))
		last = h.Name
	}
	if exact {
		return nil
	}
	list := make([][2]string, len(hs))
	for i, h := range hs {
		list[i] = [2]string{h.Name, base64.StdEncoding.EncodeToString(h.Value)}
	}
	text, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("%w: headers: %w", ErrCannotCarry, err)
	}
	to.Text(Ordered, string(text))
	return nil
}

func (c *Codec) plain(h skald.Header) bool {
	a, ours := c.byName[h.Name]
	if c.style.Exact { // an own content-type header may set the content type
		return h.Name != Ordered && (!ours || a == content)
	}
	return h.Name != "" && !ours && !isSkaldHeader(h.Name) && c.style.Plain(h)
}

// isSkaldHeader returns true if Skald adds headers with this name.
func isSkaldHeader(name string) bool { return name == RawKey || name == NilData || name == Ordered }
