// This file converts errors to problems, which are the error responses of an endpoint.

package httpidem

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/store"
)

// Types of the problems that this package sends.
const (
	typeKeyMissing = "urn:skald:problem:idempotency-key"
	typeKeyReused  = "urn:skald:problem:idempotency-key-reused"
	typeKeyTooOld  = "urn:skald:problem:idempotency-key-too-old"
	typeInProgress = "urn:skald:problem:request-in-progress"
	typeNotKept    = "urn:skald:problem:answer-not-kept"
	typeStreaming  = "urn:skald:problem:streaming"
	typeCoding     = "urn:skald:problem:answer-coding"
	typeLength     = "urn:skald:problem:answer-length"
	typeBodyTaken  = "urn:skald:problem:body-taken"
)

// Problem is an error response, as in RFC 9457. A handler may return a *Problem as its error, or as the
// reason of skald.Reject.
type Problem struct {
	Type     string // a URI; empty means about:blank
	Title    string // default: the text of the status code
	Status   int
	Detail   string        // text for the client
	Instance string        // a URI
	After    time.Duration // the header Retry-After, rounded up to seconds; 0 means no header
	Err      error         // an error for the log; the client does not see it
}

func (p *Problem) Error() string {
	if p == nil {
		return "a *httpidem.Problem that is nil"
	}
	text := fmt.Sprintf("%d %s", p.Status, p.Detail)
	if p.Err != nil {
		text += ": " + p.Err.Error()
	}
	return text
}
func (p *Problem) Unwrap() error {
	if p == nil {
		return nil
	}
	return p.Err
}

// Refuse returns an error that refuses a request finally. The endpoint rolls back the rows of the handler.
// This request and each repeat with the key get this answer. The drafts are published.
func Refuse(status int, detail string, drafts ...skald.Draft) error {
	return skald.Reject(&Problem{Status: status, Detail: detail}, drafts...)
}

// toAnswer converts the problem to an answer.
func (p *Problem) toAnswer() answer {
	body := map[string]any{"type": "about:blank", "title": p.Title, "status": p.Status}
	if p.Type != "" {
		body["type"] = p.Type
	}
	if p.Title == "" {
		body["title"] = http.StatusText(p.Status)
	}
	if p.Detail != "" {
		body["detail"] = p.Detail
	}
	if p.Instance != "" {
		body["instance"] = p.Instance
	}
	text, _ := json.Marshal(body) // strings and numbers cause no error
	h := http.Header{"Content-Type": {"application/problem+json"}}
	if p.After > 0 {
		h.Set("Retry-After", strconv.Itoa(int((p.After+time.Second-1)/time.Second)))
	}
	return answer{code: p.Status, header: h, body: text}
}

// fail sends the problem of err, and logs err if the client does not see it.
func (ep *endpoint) fail(w http.ResponseWriter, r *http.Request, p *Problem, err error) {
	if (p.Status >= 500 || p.Err != nil) && r.Context().Err() == nil {
		// If the client has disconnected, its error is expected.
		ep.o.Logger.ErrorContext(r.Context(), "httpidem: request failed", "endpoint", ep.name,
			"method", r.Method, "path", r.URL.Path, "status", p.Status, "error", err)
	}
	p.toAnswer().send(w)
}

// problem returns the problem for an error.
func (ep *endpoint) problem(err error) *Problem {
	var (
		problem *Problem
		other   *once.ConflictError
		old     *once.TooOldError
		held    *once.InProgressError
		later   *skald.LaterError
	)
	switch {
	case errors.As(err, &problem) && problem != nil && problem.Status >= 400 && problem.Status <= 599:
		return problem
	case errors.Is(err, errLength):
		return &Problem{Type: typeLength, Status: http.StatusInternalServerError, Detail: err.Error(),
			Err: err}
	case errors.Is(err, errTaken):
		return &Problem{Type: typeBodyTaken, Status: http.StatusInternalServerError, Detail: err.Error()}
	case errors.As(err, &other) && other.Consumer == ep.scope():
		return &Problem{Type: typeKeyReused, Title: "Idempotency-Key is already used",
			Status: http.StatusUnprocessableEntity,
			Detail: "this key was used for another request: method, path, query, Content-Type or body differ. Send this request with a new key"}
	case errors.As(err, &old) && old.Consumer == ep.scope():
		return &Problem{Type: typeKeyTooOld, Title: "Idempotency-Key is too old",
			Status: http.StatusUnprocessableEntity,
			Detail: "the answers from the time of this key are deleted, so the request may have been done. Check that before you send it with a new key"}
	case errors.As(err, &held), errors.Is(err, store.ErrBusy):
		after := retryAfter
		if held != nil {
			after = max(after, held.Left)
		}
		return &Problem{Type: typeInProgress, Title: "A request is outstanding for this Idempotency-Key",
			Status: http.StatusConflict, After: after,
			Detail: "a request with this key, or for the same entity, is in progress: send the request again later to get its answer"}
	case errors.As(err, &later):
		return &Problem{Status: http.StatusServiceUnavailable, After: max(later.After, retryAfter),
			Detail: "the service cannot do this now: send the same request again later", Err: err}
	case ep.isTemporary(err):
		return &Problem{Status: http.StatusServiceUnavailable, After: retryAfter,
			Detail: "the request may or may not have been done: send the same request again to find out", Err: err}
	}
	return &Problem{Status: http.StatusInternalServerError,
		Detail: "the service failed; the same request may be sent again", Err: err}
}

// isTemporary reports whether err is temporary, so that the same request may succeed later.
func (ep *endpoint) isTemporary(err error) bool {
	var later *skald.LaterError
	var outage *skald.OutageError
	var fault *readOnlyError
	return errors.As(err, &later) || errors.As(err, &outage) || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded) || ep.outage(err) && !errors.As(err, &fault)
}

// outcome returns the outcome of a request for metrics. P is its error, or nil.
func outcome(ctx context.Context, a answer, p *Problem) string {
	switch {
	case a.outcome != "":
		return a.outcome
	case p != nil && ctx.Err() != nil:
		return telemetry.KeyUndone // the client has disconnected
	case p != nil:
		return p.outcome()
	case a.replayed:
		return telemetry.KeyRepeated
	case a.rejected:
		return telemetry.KeyRefused
	case a.stored && a.dropped > 0:
		return telemetry.KeyTooLarge
	case a.stored:
		return telemetry.KeyDone
	}
	return telemetry.KeyUndone
}

func (p *Problem) outcome() string {
	switch {
	case p.Type == typeInProgress:
		return telemetry.KeyInProgress
	case p.Type == typeKeyReused:
		return telemetry.KeyConflict
	case p.Type == typeKeyTooOld:
		return telemetry.KeyTooOld
	case p.Status == http.StatusServiceUnavailable:
		return telemetry.KeyOutage
	case p.Status >= http.StatusInternalServerError:
		return telemetry.KeyFailed
	}
	return telemetry.KeyUndone // the handler returned a problem
}
