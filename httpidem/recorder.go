package httpidem

import (
	"bufio"
	"errors"
	"mime"
	"net"
	"net/http"
)

// mostHeld limits an answer in memory, in bytes.
const mostHeld = 32 << 20

var (
	errStreams = errors.New("httpidem: a handler under Wrap cannot stream, because its answer is sent after it is stored: mount it outside of Wrap, or send a complete answer")
	errHijacks = errors.New("httpidem: a handler under Wrap cannot hijack the connection, because its answer must be stored: mount it outside of Wrap")
)

// recorder records an answer. It has no Flush, which http.ResponseController detects, and refuses streams.
type recorder struct {
	header  http.Header // the handler's
	sent    http.Header // as it was at WriteHeader
	code    int
	body    []byte
	dropped int64 // size of a body that is too large to be held
	refused error
	invalid error // reports an invalid status
}

func (w *recorder) Header() http.Header { return w.header }

func (w *recorder) WriteHeader(code int) {
	if w.code != 0 || code >= 100 && code < 200 { // informational ones are not stored
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
	case w.dropped > 0 || len(w.body)+len(p) > mostHeld:
		w.dropped += int64(len(w.body) + len(p))
		w.body = nil
		return len(p), nil
	}
	w.body = append(w.body, p...)
	return len(p), nil
}

// Hijack returns an error.
func (w *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.refused = errHijacks
	return nil, nil, errHijacks
}

func (w *recorder) answer() answer {
	w.WriteHeader(http.StatusOK)
	a := answer{code: w.code, header: w.sent, body: w.body, dropped: w.dropped, lost: w.dropped > 0}
	return a // net/http detects a missing Content-Type when it sends a
}
