// Package cloudevents maps messages to the headers of a broker and back: CloudEvents in binary mode, with the
// extensions partitionkey, sequence, correlationid, causationid and traceparent. What differs between brokers
// is a Style. Where a team has names of its own, envelope.go maps to these.
//
// traceparent is the trace of the message's origin. A plain header traceparent is that of one hop: it belongs
// to whoever set it, and stays among the message's own headers.
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

// Headers of Skald's own, for what a broker that is not Exact cannot carry as it is.
const (
	RawKey  = "Skald-Key"     // the key, where it is not the text of partitionkey
	NilData = "Skald-Nil"     // the data is nil, not empty
	Ordered = "Skald-Headers" // JSON, [[name, base64], …]: all headers of the message, in order
)

const specVersion = "1.0"

var (
	// ErrCannotCarry is wrapped by errors about a message that the broker cannot carry, however often it is
	// tried.
	ErrCannotCarry = errors.New("the broker cannot carry it")
	// ErrNotText is wrapped by errors about an attribute that is not UTF-8 or has a zero byte.
	ErrNotText = errors.New("not text")

	errSpecVersion = errors.New("not a version of CloudEvents that this build reads")
)

// A Style is how the headers of one broker carry attributes.
type Style struct {
	// Prefixes stand in front of an attribute's name. The first is written, all are read.
	Prefixes []string
	// ContentType is the header of the content type, without a prefix. Empty: it is the attribute
	// datacontenttype.
	ContentType string
	// Exact: the broker itself carries a key, tells nil data from empty data, and carries any headers in
	// their order. Otherwise the headers RawKey, NilData and Ordered stand in.
	Exact bool
	// Once: the broker carries one header of each name. It does not matter if Exact.
	Once bool
	// Escapes: values are visible ASCII, with all else by percent, and a raw key is in base64.
	Escapes bool
	// Plain tells whether the broker carries a header of a message unchanged. It is not asked if Exact, nor
	// about headers that would be read as part of the envelope.
	Plain func(skald.Header) bool
}

type attribute int

const (
	version attribute = iota // written in this order
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
	attributes // how many
)

// A Codec reads and writes one Style. It is constant, and safe for concurrent use.
type Codec struct {
	style  Style
	names  [attributes]string
	byName map[string]attribute
	places *places // nil: CloudEvents, and no others
}

// New makes a codec.
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

// Attribute tells whether a header of that name is one of CloudEvents.
func (c *Codec) Attribute(header string) bool {
	for _, prefix := range c.style.Prefixes {
		if strings.HasPrefix(header, prefix) {
			return true
		}
	}
	return false
}

// field is where the text of an attribute belongs; nil: it is not text.
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

// Headers take what a message has in headers. Values are copied.
type Headers interface {
	Text(name, value string)
	Bytes(name string, value []byte)
	Time(name string, value time.Time) // in UTC, as RFC 3339 has it
}

// Encode writes the headers of m, and gives the data that travels. An error wraps ErrCannotCarry. A message
// without id, source and type is foreign: it stays as it came.
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
	return m.Data, c.own(m.Headers, to)
}

func (c *Codec) escaped(a attribute, v string) string {
	if !c.style.Escapes || a == content && c.style.ContentType != "" && Printable(v) &&
		!strings.Contains(v, "%") {
		return v // a header of its own is not of the envelope
	}
	return escape(v)
}

// namesAreText refuses headers whose names are no text: no broker carries them.
func namesAreText(hs []skald.Header) error {
	for i := range hs {
		if !utf8.ValidString(hs[i].Name) {
			return fmt.Errorf("%w: the name of header %q is not UTF-8", ErrCannotCarry, hs[i].Name)
		}
	}
	return nil
}

// own writes a message's own headers: as they are where the broker carries them, so that anybody reads them,
// and all of them in one list if not all would come out as they went in.
func (c *Codec) own(hs []skald.Header, to Headers) error {
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
		exact = exact && (c.style.Exact || h.Name >= last && (i == 0 || h.Name != last || !c.style.Once))
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
	if c.style.Exact { // a content type is that of the message, if it has no other
		return h.Name != Ordered && (!ours || a == content)
	}
	return h.Name != "" && !ours && !own(h.Name) && c.style.Plain(h)
}

// own are the headers that Skald adds.
func own(name string) bool { return name == RawKey || name == NilData || name == Ordered }
