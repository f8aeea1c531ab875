// This file records the answer of a handler under Wrap.

package httpidem

import (
	"bufio"
	"errors"
	"mime"
	"net"
	"net/http"
)

// maxAnswer is the maximum size of an answer in memory, in bytes.
const maxAnswer = 32 << 20

var (
	errStreams = errors.New("httpidem: a handler under Wrap cannot stream, because its answer is sent after it is stored: mount it outside of Wrap, or send a complete answer")
	errHijacks = errors.New("httpidem: a handler under Wrap cannot hijack the connection, because its answer must be stored: mount it outside of Wrap")
)

// recorder is the http.ResponseWriter of a handler under Wrap. It has no Flush method, so
// http.ResponseController reports that it cannot flush. It refuses streams.
type recorder struct {
	header  http.Header // headers that the handler sets
	sent    http.Header // copy of header at the call of WriteHeader
	code    int
	body    []byte
	dropped int64 // size of a body that is too large for memory
	refused error // why the answer cannot be stored
	invalid error // reports an invalid status
}

func (w *recorder) Header() http.Header { return w.header }

func (w *recorder) WriteHeader(code int) {
	if w.code != 0 || code >= 100 && code < 200 { // informational answers are not stored
		return
	}
	if w.invalid = badStatus(code); w.invalid != nil {
		code = http.StatusInternalServerError
	}
	w.code, w.sent = code, w.header.Clone()
	if kind, _, _ := mime.ParseMediaType(w.header.Get("Content-Type")); kind == "text/event-stream" {
		w.refused = errStreams
	}
}

func (w *recorder) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	switch {
	case w.refused != nil:
		return 0, w.refused
	case !bodyAllowed(w.code):
		return 0, http.ErrBodyNotAllowed
	case w.dropped > 0 || len(w.body)+len(p) > maxAnswer:
		w.dropped += int64(len(w.body) + len(p))
		w.body = nil
		return len(p), nil
	}
	w.body = append(w.body, p...)
	return len(p), nil
}

// Hijack always returns an error.
func (w *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.refused = errHijacks
	return nil, nil, errHijacks
}

func (w *recorder) answer() answer {
	w.WriteHeader(http.StatusOK)
	a := answer{code: w.code, header: w.sent, body: w.body, dropped: w.dropped, lost: w.dropped > 0}
	return a // net/http detects a missing Content-Type when it sends a
}
