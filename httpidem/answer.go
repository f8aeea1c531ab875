// This file encodes answers for the database, decodes them, and sends them to clients.

package httpidem

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/skald-go/skald/once"
)

// answer is the response to a client.
type answer struct {
	code       int
	header     http.Header
	body       []byte
	reason     string // the reason of a refusal; empty if there is none
	rejected   bool
	stored     bool // it is stored under the key
	replayed   bool // an earlier request stored it
	lost       bool // the body was too large to be sent
	unknown    bool // the request was done, but its answer is not stored
	dropped    int64
	negotiated bool         // the client accepted its Content-Encoding
	instance   string       // the URL to read instead of a body that is not stored
	kept       *once.Answer // the stored form; nil if it is not stored, or unknown
	outcome    string       // for metrics; empty means that the fields above determine it
}

// metadata has the parts of an answer that are stored as JSON, in addition to code and body.
type metadata struct {
	Header http.Header `json:"header,omitempty"`
	// Raw has headers that are not UTF-8, which JSON would change.
	Raw map[string][][]byte `json:"raw,omitempty"`
	// Dropped is the size of a body that was too large to be stored.
	Dropped  int64  `json:"dropped,omitempty"`
	Instance string `json:"instance,omitempty"`
	// Negotiated reports that the first client accepted the Content-Encoding of the body.
	Negotiated bool `json:"negotiated,omitempty"`
}

// storable reports whether an answer with this status is stored. With 401, 403, 408, 409, 425, 429 and 5xx
// the request was not done, and may succeed later.
func storable(code int) bool {
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestTimeout, http.StatusConflict,
		http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return code >= 200 && code < 500
}

// keepable returns the headers of h that can be stored, with canonical names. It omits headers that belong to
// one exchange.
func keepable(h http.Header) http.Header {
	out := http.Header{}
	for _, name := range slices.Sorted(maps.Keys(h)) {
		as := http.CanonicalHeaderKey(name)
		out[as] = append(out[as], h[name]...)
	}
	for _, name := range []string{"Connection", "Content-Length", "Date", "Keep-Alive", "Proxy-Connection",
		"Set-Cookie", "Te", "Trailer", "Transfer-Encoding", "Upgrade"} {
		delete(out, name)
	}
	maps.DeleteFunc(out, func(name string, _ []string) bool {
		return len(name) > len(http.TrailerPrefix) && name[:len(http.TrailerPrefix)] == http.TrailerPrefix
	})
	return out
}

// keep returns the stored form of a. If the body or the headers are too large, it stores their size instead.
func (a *answer) keep(path string) (once.Answer, error) {
	out := once.Answer{Rejected: a.rejected, Reason: a.reason, Code: int32(a.code), Result: string(a.body)}
	more := newMetadata(keepable(a.header))
	more.Negotiated = a.negotiated
	text, err := more.encode()
	if err != nil {
		return out, err
	}
	if a.dropped == 0 && len(a.body) <= once.MaxResult && len(text) <= once.MaxHeaders {
		out.Headers = string(text)
		return out, nil
	}
	out.Result = ""
	more = metadata{Dropped: max(a.dropped, int64(len(a.body)), 1), Instance: more.Header.Get("Location")}
	for _, more.Instance = range []string{cmp.Or(more.Instance, path), path, ""} { // the first that fits
		if text, err = more.encode(); err != nil || len(text) <= once.MaxHeaders {
			break
		}
	}
	a.dropped, a.instance = more.Dropped, more.Instance
	out.Headers = string(text)
	return out, err
}

// encode returns m as JSON without HTML escapes, because an escape would store one character as six bytes.
func (m metadata) encode() ([]byte, error) {
	var text bytes.Buffer
	j := json.NewEncoder(&text)
	j.SetEscapeHTML(false)
	if err := j.Encode(m); err != nil {
		return nil, fmt.Errorf("encode headers: %w", err)
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

// Scope returns the consumer of the marks of an endpoint. Use it as the consumer when you import stored
// answers.
func Scope(name string) string { return "http:" + name }

// Answered returns an answer as an endpoint stores it, for inbox.Import. Use it for answers in a table of
// your own. If the body is too large to be stored, a Location header is the URL to read instead. Answered
// returns an error for a status that an endpoint never stores, because its request may be done again.
func Answered(code int, header http.Header, body []byte) (once.Answer, error) {
	if !storable(code) {
		return once.Answer{},
			fmt.Errorf("an answer with status %d is never stored, because the request may be done again: omit it", code)
	}
	for name, values := range header {
		if !token(name) || slices.ContainsFunc(values,
			func(v string) bool { return strings.ContainsAny(v, "\r\n\x00") }) {
			return once.Answer{}, fmt.Errorf("the header %.100q cannot be sent: its name has other characters than letters, digits and -, or its value has a line break", name)
		}
	}
	a := answer{code: code, header: header, body: body}
	return a.keep("")
}

// token reports whether name is a valid header name.
func token(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(c rune) bool {
		return c <= ' ' || c > '~' || strings.ContainsRune("\"(),/:;<=>?@[\\]{}", c)
	})
}

// restore decodes an answer that keep has encoded.
func restore(kept once.Answer) (answer, error) {
	a := answer{code: int(kept.Code), body: []byte(kept.Result), rejected: kept.Rejected, reason: kept.Reason,
		stored: true, replayed: true, kept: &kept}
	var more metadata
	if kept.Headers != "" {
		if err := json.Unmarshal([]byte(kept.Headers), &more); err != nil {
			return a, fmt.Errorf("read the headers of a stored answer: %w", err)
		}
	}
	a.header, a.dropped, a.instance = more.headers(), more.Dropped, more.Instance
	a.negotiated = more.Negotiated
	switch {
	case a.code != 0:
	case len(a.body) == 0 && !a.rejected: // the mark of an import, or of a handler that ended its transaction
		a.unknown = true
	default: // once.Do has stored it
		a.code = http.StatusOK
	}
	return a, nil
}

// equals reports whether a and b are the same for a client.
func (a answer) equals(b answer) bool { return a.code == b.code && bytes.Equal(a.body, b.body) }

// send writes a to w.
func (a answer) send(w http.ResponseWriter) {
	h := w.Header()
	for name, values := range a.header {
		h[name] = merged(name, h[name], values)
	}
	if bodyAllowed(a.code) {
		h.Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	w.WriteHeader(a.code)
	if bodyAllowed(a.code) {
		_, _ = w.Write(a.body) // an error means that the client is gone; the answer is stored
	}
}

// merged returns the values of a header that outer middleware and the handler have set. Headers that are
// lists get both values. For other headers the value of the handler replaces the outer one, as without an
// endpoint.
func merged(name string, outer, own []string) []string {
	switch http.CanonicalHeaderKey(name) {
	case "Vary", "Set-Cookie", "Link", "Via", "Warning", "Allow", "Access-Control-Expose-Headers",
		"Content-Security-Policy", "Server-Timing", "Www-Authenticate":
	default:
		return slices.Clone(own)
	}
	out := slices.Clone(outer)
	for _, v := range own {
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// errLength reports an answer with a wrong Content-Length. A proxy would cut such an answer off, or wait for
// more.
var errLength = errors.New("httpidem: the handler wrote another number of bytes than its Content-Length: its source may have broken off")

// checkLength returns an error if the Content-Length in h is not equal to written, the number of bytes that
// the handler wrote.
func checkLength(h http.Header, written int64) error {
	n, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64)
	if err != nil || n < 0 || n == written { // net/http ignores an invalid length
		return nil
	}
	return fmt.Errorf("%w: %d bytes declared, %d written", errLength, n, written)
}

// replay sends a stored answer again. If the answer cannot be sent, it sends a problem that explains why.
func (a answer) replay(w http.ResponseWriter, r *http.Request) {
	if a.negotiated && !accepts(r.Header, a.header) {
		coding := strings.Join(a.header.Values("Content-Encoding"), ", ")
		problem := (&Problem{Type: typeCoding, Status: http.StatusNotAcceptable,
			Title:  "The answer is stored in a coding that this request does not accept",
			Detail: fmt.Sprintf("the request was done, and its answer is stored with Content-Encoding %.100q: send the same request with Accept-Encoding: %[1]s to receive it", coding)}).toAnswer()
		problem.header.Add("Vary", "Accept-Encoding")
		problem.replayed = a.replayed
		a = problem
	}
	if a.dropped > 0 || a.unknown {
		p := Problem{Type: typeNotKept, Title: "The request was done, its answer is not stored",
			Status: http.StatusConflict, Instance: a.instance,
			Detail: fmt.Sprintf("its answer had status %d and %d bytes, which is too large to be stored. It is not done again: read its result", a.code, a.dropped)}
		if a.unknown {
			p.Detail = "its answer is not known here. It is not done again: read its result"
		}
		problem := p.toAnswer()
		problem.replayed = a.replayed
		a = problem
	}
	if a.replayed {
		w.Header().Set(ReplayedHeader, "true")
	}
	a.send(w)
}

// bodyAllowed reports whether a response with this status may have a body.
func bodyAllowed(code int) bool {
	return code >= 200 && code != http.StatusNoContent && code != http.StatusNotModified
}
