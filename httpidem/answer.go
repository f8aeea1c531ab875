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

// An answer is what a client gets.
type answer struct {
	code       int
	header     http.Header
	body       []byte
	reason     string // of a refusal; "": it is none
	rejected   bool
	stored     bool // it stands under the key
	replayed   bool // it was stored before
	lost       bool // the body was too large even to be sent
	unknown    bool // it was done, and nothing of its answer is kept
	dropped    int64
	negotiated bool         // its Content-Encoding is one that its client had asked for
	instance   string       // where to look instead, of a body that is not kept
	kept       *once.Answer // as it is stored; nil: it is not, or not known
	outcome    string       // for metrics; "": what the fields above say
}

// beside is what is stored with code and body, as JSON.
type beside struct {
	Header http.Header `json:"header,omitempty"`
	// headers that are not UTF-8, which JSON would change
	Raw map[string][][]byte `json:"raw,omitempty"`
	// bytes of the body, which was too large to be kept
	Dropped  int64  `json:"dropped,omitempty"`
	Instance string `json:"instance,omitempty"`
	// the first client accepted the Content-Encoding of the body
	Negotiated bool `json:"negotiated,omitempty"`
}

// storable tells of a status whether its answer is kept: 401, 403, 408, 409, 425, 429 and 5xx say that the
// request was not done, and may be another time.
func storable(code int) bool {
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestTimeout, http.StatusConflict,
		http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return code >= 200 && code < 500
}

// keepable is h without what belongs to one exchange alone, whatever the case of its names.
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

// keep is a as it is stored. A body or headers that are too large are left out, and that is stored.
func (a *answer) keep(path string) (once.Answer, error) {
	out := once.Answer{Rejected: a.rejected, Reason: a.reason, Code: int32(a.code), Result: string(a.body)}
	more := besideOf(keepable(a.header))
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
	more = beside{Dropped: max(a.dropped, int64(len(a.body)), 1), Instance: more.Header.Get("Location")}
	for _, more.Instance = range []string{cmp.Or(more.Instance, path), path, ""} { // the first that fits
		if text, err = more.encode(); err != nil || len(text) <= once.MaxHeaders {
			break
		}
	}
	a.dropped, a.instance = more.Dropped, more.Instance
	out.Headers = string(text)
	return out, err
}

// encode is b as JSON, in which no character takes six bytes that a client can send in one.
func (b beside) encode() ([]byte, error) {
	var text bytes.Buffer
	j := json.NewEncoder(&text)
	j.SetEscapeHTML(false)
	if err := j.Encode(b); err != nil {
		return nil, fmt.Errorf("encode headers: %w", err)
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

// Scope is the consumer of the marks of an endpoint: what its stored answers are imported under.
func Scope(name string) string { return "http:" + name }

// Answered is an answer as an endpoint stores it, for inbox.Import: what a table of your own has of requests
// that were answered before. Location, where the header has one, tells where to look if the body is too large
// to be kept. An answer that an endpoint would not store is an error: its request may be done again.
func Answered(code int, header http.Header, body []byte) (once.Answer, error) {
	if !storable(code) {
		return once.Answer{},
			fmt.Errorf("an answer of %d is not stored: the request may be done again; leave it out", code)
	}
	for name, values := range header {
		if !token(name) || slices.ContainsFunc(values,
			func(v string) bool { return strings.ContainsAny(v, "\r\n\x00") }) {
			return once.Answer{}, fmt.Errorf("the header %.100q cannot be sent: its name has other than letters, digits and -, or its value two lines", name)
		}
	}
	a := answer{code: code, header: header, body: body}
	return a.keep("")
}

// token tells whether a header may have that name.
func token(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(c rune) bool {
		return c <= ' ' || c > '~' || strings.ContainsRune("\"(),/:;<=>?@[\\]{}", c)
	})
}

// restore reads what keep made.
func restore(kept once.Answer) (answer, error) {
	a := answer{code: int(kept.Code), body: []byte(kept.Result), rejected: kept.Rejected, reason: kept.Reason,
		stored: true, replayed: true, kept: &kept}
	var more beside
	if kept.Headers != "" {
		if err := json.Unmarshal([]byte(kept.Headers), &more); err != nil {
			return a, fmt.Errorf("read the headers of a stored answer: %w", err)
		}
	}
	a.header, a.dropped, a.instance = more.headers(), more.Dropped, more.Instance
	a.negotiated = more.Negotiated
	switch {
	case a.code != 0:
	case len(a.body) == 0 && !a.rejected: // a mark alone: an import, or a handler that ended its transaction
		a.unknown = true
	default: // stored by once.Do
		a.code = http.StatusOK
	}
	return a, nil
}

// equals tells whether a client would see no difference.
func (a answer) equals(b answer) bool { return a.code == b.code && bytes.Equal(a.body, b.body) }

// send writes a.
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
		_, _ = w.Write(a.body) // the client is gone if this fails; the answer stands
	}
}

// merged are the values of a header that middleware outside has set, and those of the handler. A list has
// both; of other headers the handler's value counts, as where it sets one in front of no endpoint.
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

// errLength is why an answer is a failure: whoever relays it would wait for more, or cut it off.
var errLength = errors.New("httpidem: the handler declared another Content-Length than it wrote: what it answers from may have broken off")

// declared refuses an answer whose header promises another length than written bytes.
func declared(h http.Header, written int64) error {
	n, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64)
	if err != nil || n < 0 || n == written { // net/http leaves out what is no length
		return nil
	}
	return fmt.Errorf("%w: %d bytes declared, %d written", errLength, n, written)
}

// replay writes a stored answer once more.
func (a answer) replay(w http.ResponseWriter, r *http.Request) {
	if a.negotiated && !accepts(r.Header, a.header) {
		coding := strings.Join(a.header.Values("Content-Encoding"), ", ")
		problem := (&Problem{Type: typeCoding, Status: http.StatusNotAcceptable,
			Title:  "The answer is kept in a coding that this request does not accept",
			Detail: fmt.Sprintf("the request was done, and its answer is kept with Content-Encoding %.100q: send the same request with Accept-Encoding: %[1]s for it", coding)}).answer()
		problem.header.Add("Vary", "Accept-Encoding")
		problem.replayed = a.replayed
		a = problem
	}
	if a.dropped > 0 || a.unknown {
		p := Problem{Type: typeNotKept, Title: "The request was done, its answer is not kept",
			Status: http.StatusConflict, Instance: a.instance,
			Detail: fmt.Sprintf("it was answered with %d and %d bytes, which is too much to be kept. It is not done again: read what it made", a.code, a.dropped)}
		if a.unknown {
			p.Detail = "what it was answered is not known here. It is not done again: read what it made"
		}
		problem := p.answer()
		problem.replayed = a.replayed
		a = problem
	}
	if a.replayed {
		w.Header().Set(ReplayedHeader, "true")
	}
	a.send(w)
}

// bodyAllowed tells of a status whether it has a body.
func bodyAllowed(code int) bool {
	return code >= 200 && code != http.StatusNoContent && code != http.StatusNotModified
}
