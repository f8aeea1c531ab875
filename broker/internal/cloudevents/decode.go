package cloudevents

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/internal/fingerprint"
)

// Header is a header with a string value.
type Header struct{ Name, Value string }

// Decode reads the headers hs into m. m already has its topic and data, and its key if the broker transports
// keys. The function headerOf returns the name and the value of a header.
//
// Unknown headers become headers of m. So does an attribute if Encode would write it differently. Unless
// Style.Exact is true, the headers may be in any order, and those of m are sorted by name. If Decode returns
// an error, the envelope is broken, and m has all headers unchanged.
//
// The parameter previous is the previous message, or nil. If a text is equal in both messages, they share
// its memory, because sources and types rarely differ.
func Decode[H any, V string | []byte](c *Codec, hs []H, headerOf func(*H) (string, V), m,
	previous *skald.Message) (fault error) {
	empty, list, next, broken, versioned := false, "", version, "", false
	for i := range hs {
		name, v := headerOf(&hs[i])
		if c.style.Exact && name == Ordered && unfolds(string(v)) {
			// a connector that publishes the outbox writes all headers into this list
			list = string(v)
			continue
		}
		if !c.style.Exact && isSkaldHeader(name) {
			var err error
			switch name {
			case RawKey:
				var key []byte
				if key, err = c.rawKey(string(v)); err == nil { // without a readable key, m has no key
					m.Key = key
				}
			case NilData:
				empty = len(m.Data) == 0
			case Ordered:
				list = string(v)
			}
			broken, fault = c.firstFault(fault, broken, name, err)
			continue
		}
		a := c.find(name, next)
		if a == attributes || a == version && versioned && c.style.Exact { // the first version is used
			m.Headers = append(m.Headers, skald.Header{Name: name, Value: []byte(v)})
			continue
		}
		next, versioned = a+1, versioned || a == version
		kept, err := take(c, a, m, previous, v)
		broken, fault = c.firstFault(fault, broken, name, err)
		if !kept {
			m.Headers = append(m.Headers, skald.Header{Name: name, Value: []byte(v)})
		}
	}
	switch {
	case c.style.Exact:
	case empty:
		m.Data = nil
	case m.Data == nil:
		m.Data = []byte{}
	}
	if fault != nil {
		m.Headers = asTheyCame(c, hs, headerOf)
	}
	if !c.style.Exact {
		slices.SortStableFunc(m.Headers,
			func(a, b skald.Header) int { return strings.Compare(a.Name, b.Name) })
	}
	if fault == nil && list != "" {
		m.Headers, fault = ordered(m.Headers, list)
	}
	return fault
}

// find returns the attribute of a header, or the constant attributes if there is none. It tries the
// attribute expected first, because headers usually arrive in the order of writing.
func (c *Codec) find(name string, expected attribute) attribute {
	for a := expected; a < min(expected+3, attributes); a++ {
		if c.names[a] == name {
			return a
		}
	}
	if a, there := c.byName[name]; there {
		return a
	}
	return attributes
}

// firstFault selects the error to report. It is the first error by position, or by name if the headers have
// no order. So the result does not depend on the order of delivery.
func (c *Codec) firstFault(before error, of, name string, err error) (broken string, fault error) {
	if err == nil || before != nil && (c.style.Exact || of <= name) {
		return of, before
	}
	return name, failed(name, err)
}

func failed(name string, err error) error {
	return fmt.Errorf("read the envelope: header %s: %w", name, err)
}

func (c *Codec) rawKey(v string) ([]byte, error) {
	if c.style.Escapes {
		return base64.StdEncoding.DecodeString(v)
	}
	return []byte(v), nil
}

// take sets the field of an attribute in m, unless the field is already set. kept is false if the header must
// become a header of m.
func take[V string | []byte](c *Codec, a attribute, m, before *skald.Message, v V) (kept bool, err error) {
	switch a {
	case version:
		if string(v) != specVersion {
			return false, fmt.Errorf("%q: %w", string(v), errSpecVersion)
		}
		return true, nil
	case instant:
		if !m.Time.IsZero() {
			return false, nil
		}
		m.Time, err = column.ParseTime(c.text(string(v)))
		return !m.Time.IsZero(), err
	case key:
		if c.style.Exact {
			return len(v) == 0 || m.Key != nil && bytes.Equal([]byte(v), m.Key), nil
		}
		if m.Key == nil {
			m.Key = []byte(c.text(string(v)))
		}
		return true, nil
	}
	f := field(m, a)
	if *f != "" || len(v) == 0 {
		// Empty means that the attribute is missing: connectors write NULL as an empty header.
		return len(v) == 0 && c.style.Exact && a != content, nil
	}
	if before != nil {
		if same := *field(before, a); same == string(v) && !c.style.Escapes {
			*f = same
			return true, nil
		}
	}
	s := c.text(string(v))
	if !isText(s) {
		if a == content && c.style.ContentType != "" { // not part of the envelope
			return false, nil
		}
		return false, ErrNotText
	}
	*f = s
	return true, nil
}

func (c *Codec) text(v string) string {
	if c.style.Escapes {
		return unescape(v)
	}
	return v
}

// asTheyCame returns all received headers, except those that Skald adds.
func asTheyCame[H any, V string | []byte](c *Codec, hs []H, at func(*H) (string, V)) []skald.Header {
	out := make([]skald.Header, 0, len(hs))
	for i := range hs {
		if name, v := at(&hs[i]); c.style.Exact || !isSkaldHeader(name) {
			out = append(out, skald.Header{Name: name, Value: []byte(v)})
		}
	}
	return out
}

// unfolds returns true if list is empty or a valid value of the header Ordered.
func unfolds(list string) bool {
	if list == "" {
		return true
	}
	_, err := ordered(nil, list)
	return err == nil
}

// ordered returns the headers hs in the order of list. The headers that are not in list come last. Other
// clients have added them.
func ordered(hs []skald.Header, list string) ([]skald.Header, error) {
	var told [][2]string
	if err := cmp.Or(fingerprint.CheckJSON([]byte(list)), json.Unmarshal([]byte(list), &told)); err != nil {
		return hs, failed(Ordered, err)
	}
	var out []skald.Header
	known := map[string]bool{}
	for _, t := range told {
		v, err := base64.StdEncoding.DecodeString(t[1])
		if err != nil {
			return hs, failed(Ordered, err)
		}
		out = append(out, skald.Header{Name: t[0], Value: v})
		known[t[0]] = true
	}
	for _, r := range hs {
		if !known[r.Name] {
			out = append(out, r)
		}
	}
	return out, nil
}
