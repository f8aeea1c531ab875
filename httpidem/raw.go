// This file stores header values that are not UTF-8.

package httpidem

import (
	"net/http"
	"slices"
	"unicode/utf8"
)

// newMetadata returns the metadata with the headers of h. Values that are not UTF-8 go into Raw, because JSON
// would replace their bytes. It changes h.
func newMetadata(h http.Header) metadata {
	out := metadata{Header: h, Raw: map[string][][]byte{}}
	for name, values := range h {
		if !slices.ContainsFunc(values, func(v string) bool { return !utf8.ValidString(v) }) {
			continue
		}
		for _, v := range values {
			out.Raw[name] = append(out.Raw[name], []byte(v))
		}
		delete(h, name)
	}
	return out
}

// headers returns the headers of m, including those in Raw.
func (m metadata) headers() http.Header {
	out := m.Header
	for name, values := range m.Raw {
		if out == nil {
			out = http.Header{}
		}
		for _, v := range values {
			out[name] = append(out[name], string(v))
		}
	}
	return out
}
