// This file reads requests: their keys, tenants and bodies.

package httpidem

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/once"
)

// keyedRequest is a request with its key and its complete body.
type keyedRequest struct {
	flightKey
	request once.Request
	body    []byte
}

// readRequest reads a request before the endpoint reserves the key, so that a slow or broken body blocks no
// other request. An error is a *Problem, or the end of the connection.
func (ep *endpoint) readRequest(w http.ResponseWriter, r *http.Request) (*keyedRequest, error) {
	key, err := keyOf(r.Header)
	if err != nil {
		return nil, err
	}
	tenant, err := ep.tenantOf(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, ep.o.MaxBody))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, &Problem{Status: http.StatusRequestEntityTooLarge,
			Detail: fmt.Sprintf("the body may have at most %d bytes", ep.o.MaxBody)}
	}
	if errors.Is(err, http.ErrBodyReadAfterClose) || err == nil && bodyWasRead(r, body) {
		return nil, errTaken
	}
	if err != nil {
		return nil, &Problem{Status: http.StatusBadRequest,
			Detail: "the body broke off: send the request again", Err: err}
	}
	payload := canonical(r, ep.o.Headers, body)
	return &keyedRequest{
		flightKey: flightKey{tenant, key},
		request: once.Request{Scope: ep.scope(), Tenant: tenant, Key: key, Payload: payload, Wait: ep.o.Wait,
			Keep: ep.o.Keep},
		body: body,
	}, nil
}

// tenantOf calls the Tenant function. If it fails, the client gets 503 during an outage, a *Problem
// unchanged, and otherwise 401. The error is only logged.
func (ep *endpoint) tenantOf(r *http.Request) (tenant string, err error) {
	defer failure.Recover(&err)
	if tenant, err = ep.tenant(r); err == nil {
		return tenant, nil
	}
	var (
		problem *Problem
		network net.Error
	)
	switch {
	case errors.As(err, &problem) && problem != nil, ep.isTemporary(err):
		return "", err
	case errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "", skald.Outage(err)
	}
	return "", &Problem{Status: http.StatusUnauthorized, Err: err}
}

// errTaken reports a body that a middleware has changed. With the same key, a different body could then get
// the stored answer.
var errTaken = errors.New("httpidem: a middleware read the body before the endpoint, and the rest of it does not identify the request: put the middleware behind the endpoint, or let it restore r.Body")

// bodyWasRead reports whether a middleware has read a part of the body, as r.PostFormValue does. A
// middleware that decompresses the body also changes the body. But such a middleware leaves
// Content-Encoding, or removes Content-Length.
func bodyWasRead(r *http.Request, body []byte) bool {
	kind, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case r.ContentLength > 0:
		return len(body) == 0 || int64(len(body)) < r.ContentLength &&
			r.Header.Get("Content-Encoding") == "" && r.Header.Get("Content-Length") != ""
	case r.ContentLength == 0:
		return false
	case kind == "application/x-www-form-urlencoded":
		return r.PostForm != nil && len(body) == 0
	}
	return r.MultipartForm != nil && strings.HasPrefix(kind, "multipart/") &&
		!bytes.Contains(body, []byte("--"+params["boundary"]))
}

// keyOf returns the key in the headers.
func keyOf(h http.Header) (string, error) {
	bad := func(why string) error {
		return &Problem{Type: typeKeyMissing, Status: http.StatusBadRequest,
			Title: "Idempotency-Key is missing or malformed", Detail: why}
	}
	all := h.Values(KeyHeader)
	if len(all) != 1 {
		return "",
			bad(
				fmt.Sprintf("this endpoint needs the header %s once, but the request has it %d times: send a unique key, such as a UUID, and the same key with each repeat",
					KeyHeader, len(all)))
	}
	text := strings.Trim(all[0], " \t")
	if !strings.HasPrefix(text, `"`) && strings.ContainsAny(text, "\",") {
		return "", bad(`a key with quotes or commas must be in quotes: "…"`)
	}
	key, err := Key(text)
	if err != nil {
		return "", bad(err.Error())
	}
	return key, nil
}

// Key returns the key for a text from a header or a table, as an endpoint stores it. It removes the quotes of
// a structured string.
func Key(text string) (key string, err error) {
	if key = text; strings.HasPrefix(text, `"`) {
		var ok bool
		if key, ok = unquote(text); !ok {
			return "",
				errors.New(`the key begins with a quote, but is not a structured string: "…" with \" and \\ as the only escapes`)
		}
	}
	if key == "" || len(key) > maxKey ||
		strings.ContainsFunc(key, func(c rune) bool { return c < ' ' || c > '~' }) {
		return "", fmt.Errorf("a key has 1 to %d visible ASCII characters", maxKey)
	}
	return key, nil
}

// unquote decodes a structured string (RFC 9651, 3.3.3). It ignores parameters.
func unquote(text string) (string, bool) {
	var out strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			rest := strings.TrimLeft(text[i+1:], " ")
			return out.String(), rest == "" || rest[0] == ';'
		case '\\':
			if i++; i == len(text) || text[i] != '"' && text[i] != '\\' {
				return "", false
			}
			out.WriteByte(text[i])
		default:
			out.WriteByte(c)
		}
	}
	return "", false
}

// quote encodes a structured string.
func quote(key string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
}

// canonical encodes the parts of a request that must be equal in all requests with one key. It writes the
// length of each part before the part.
func canonical(r *http.Request, headers []string, body []byte) []byte {
	parts := [][]byte{[]byte(r.Method), []byte(r.URL.EscapedPath()), []byte(r.URL.RawQuery),
		[]byte(mediaType(r.Header.Get("Content-Type")))}
	names := make([]string, len(headers))
	for i, name := range headers {
		names[i] = http.CanonicalHeaderKey(name)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		values := r.Header.Values(name)
		if name == "Host" { // net/http moves this header to r.Host
			values = []string{r.Host}
		}
		parts = append(parts, fmt.Appendf(nil, "%s %d", name, len(values)))
		for _, v := range values {
			parts = append(parts, []byte(v))
		}
	}
	var out bytes.Buffer
	for _, part := range append(parts, body) {
		out.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		out.Write(part)
	}
	return out.Bytes()
}

// mediaType normalizes a Content-Type, so that the case and the order of its parameters do not matter.
func mediaType(text string) string {
	kind, params, err := mime.ParseMediaType(text)
	if err != nil {
		return text
	}
	return cmp.Or(mime.FormatMediaType(kind, params), text)
}
