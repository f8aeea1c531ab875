// This file has the endpoints with a transaction: Handle, and the types of its handlers.

package httpidem

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/internal/complete"
	"github.com/skald-go/skald/internal/fingerprint"
	"github.com/skald-go/skald/internal/lending"
	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/store"
)

// Request is the input of a handler.
type Request[In any] struct {
	*http.Request // its Body has been read
	Key, Tenant   string
	Body          In
	Locks         []store.Lock // the locked Options.Entities, with their versions in this transaction
}

// Reply is the result of a handler. Body is encoded as JSON; a []byte is sent unchanged.
type Reply[Out any] struct {
	Code   int // default 200
	Header http.Header
	Body   Out
}

// OK returns a reply with status 200.
func OK[Out any](body Out) Reply[Out] { return Reply[Out]{Code: http.StatusOK, Body: body} }

// Created returns a reply with status 201 and the URL of the new object.
func Created[Out any](body Out, location string) Reply[Out] {
	return Reply[Out]{Code: http.StatusCreated, Header: http.Header{"Location": {location}}, Body: body}
}

// Accepted returns a reply with status 202 and a URL for the progress.
func Accepted[Out any](body Out, location string) Reply[Out] {
	return Reply[Out]{Code: http.StatusAccepted, Header: http.Header{"Location": {location}}, Body: body}
}

// Handler does a request in tx. It must not commit tx. The result determines the outcome:
//
//   - A reply with 2xx, 3xx or 4xx commits the rows and messages of the handler, and stores the reply.
//   - A reply with 401, 403, 408, 409, 425, 429 or 5xx rolls back, and is not stored.
//   - skald.Reject and Refuse roll back, and store the refusal.
//   - A *Problem rolls back, and is sent but not stored.
//   - Any other error rolls back. The answer is 503 during an outage of the database, and otherwise 500.
type Handler[TTx, In, Out any] func(ctx context.Context, tx TTx, q Request[In]) (Reply[Out], error)

// Handle returns an idempotent endpoint for fn. The name and the tenant are the scope of a key, so give each
// endpoint its own name.
//
// In is decoded from JSON. The endpoint answers another Content-Type with 415, and an invalid body with 400;
// it stores neither answer. If In is []byte, the handler receives the body unchanged. If In is struct{}, the
// body must be empty. If an answer is larger than 64 KiB, the endpoint sends it, but stores only its size. It
// answers a repeat with 409.
func Handle[TTx, In, Out any](db Store[TTx], name string, tenant Tenant, o *Options,
	fn Handler[TTx, In, Out]) http.Handler {
	ep := newEndpoint(name, tenant, o, db)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ep.serve(w, r, func(ctx context.Context, q *keyedRequest) (answer, error) {
			in := Request[In]{Request: r, Key: q.key, Tenant: q.tenant}
			if err := decode(r, q.body, &in.Body); err != nil {
				return answer{outcome: telemetry.KeyInvalid}, err
			}
			if err := ep.addEntities(r, q); err != nil {
				return answer{}, err
			}
			ctx, began, cancel := ep.untilOutage(ctx)
			defer cancel()
			run, err := once.Begin(ctx, db, q.request)
			if began(); err != nil {
				return answer{}, asOutage(ctx, err)
			}
			in.Locks = run.Locks()
			if kept, done := run.Answer(); done {
				return restore(kept)
			}
			defer run.Close(ctx)
			lent := lending.With(ctx, lending.Loan{Tx: run.Tx(), Consumer: "HTTP endpoint " +
				name, ID: q.key})
			reply, err := safely(lent, run.Tx(), in, fn)
			if err != nil {
				err = asOutage(ctx, err)
			}
			return finishRun(ctx, ep, run, q, r, reply, err)
		})
	})
}

var errNoEntity = errors.New("httpidem.Options.Entities returned an entity without Space or Key: all such requests would wait for each other; set both, or omit the entity")

// addEntities adds the entities of a request to the locks of its key.
func (ep *endpoint) addEntities(r *http.Request, q *keyedRequest) (err error) {
	if ep.o.Entities == nil {
		return nil
	}
	err = failure.Run(func() error {
		q.request.Locks = ep.o.Entities(r, q.body)
		return nil
	})
	if err != nil {
		return err
	}
	if slices.ContainsFunc(q.request.Locks, func(l store.Lock) bool { return l.Space == "" || l.Key == "" }) {
		return errNoEntity
	}
	return nil
}

func safely[TTx, In, Out any](ctx context.Context, tx TTx, in Request[In],
	fn Handler[TTx, In, Out]) (reply Reply[Out], err error) {
	err = failure.Run(func() (err error) {
		reply, err = fn(ctx, tx, in)
		return err
	})
	return reply, err
}

// finishRun ends the run with the reply of the handler.
func finishRun[TTx, Out any](ctx context.Context, ep *endpoint, run *once.Run[TTx], q *keyedRequest,
	r *http.Request, reply Reply[Out], err error) (answer, error) {
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(finishTimeout, ep.o.dbTimeout()))
	defer cancel()
	a, rows, err := ep.answerFor(ctx, run.Outage, err, func() (answer, error) { return encode(ctx, reply) })
	if err != nil || !a.stored {
		run.Rollback(end)
		return a, err
	}
	a.negotiated = negotiates(r, a.header)
	kept, err := a.keep(r.URL.EscapedPath())
	if err != nil {
		run.Rollback(end)
		return a, err
	}
	err = run.Commit(end, kept, rows...)
	switch {
	case errors.Is(err, store.ErrLent): // the key is marked as done, but the answer is not stored
		return answer{}, fmt.Errorf("the handler ended the transaction of the endpoint; repeats get a problem that the answer is not stored: %w", err)
	case err != nil:
		return ep.readAgain(end, q, err)
	}
	a.kept = &kept
	return a, nil
}

// answerFor returns the answer for the result of a handler, or an error that is not stored. If the code of
// the handler's values and errors panics, answerFor returns such an error.
func (ep *endpoint) answerFor(ctx context.Context, outage func(context.Context, error) bool, err error,
	encode func() (answer, error)) (a answer, rows []skald.Message, bad error) {
	defer failure.Recover(&bad)
	var no *skald.RejectedError
	switch {
	case errors.As(err, &no):
		return refused(ctx, no)
	case err != nil && outage(ctx, err):
		return a, nil, skald.Outage(err)
	case err != nil:
		return a, nil, readOnly(err)
	}
	err = failure.Run(func() (err error) {
		a, err = encode()
		return err
	})
	if err != nil {
		return a, nil, err
	}
	a.stored = storable(a.code)
	return a, nil, nil
}

// readOnlyError is the error of a handler that wrote in a read-only transaction.
type readOnlyError struct{ err error }

func (e *readOnlyError) Error() string {
	return "the endpoint's transaction writes, so the handler made it READ ONLY, or wrote in another one that only reads: " +
		e.err.Error()
}
func (e *readOnlyError) Unwrap() error { return e.err }

// readOnly returns a *readOnlyError if a handler failed with SQLSTATE 25006. This is no outage, because on a
// read-only server the transaction does not even begin. readOnly returns other errors unchanged.
func readOnly(err error) error {
	var server interface{ SQLState() string }
	var outage *skald.OutageError
	if errors.As(err, &server) && server.SQLState() == "25006" && !errors.As(err, &outage) {
		return &readOnlyError{err}
	}
	return err
}

// refused returns the answer and the messages of a final refusal. It returns an error if the status of the
// refusal is never stored.
func refused(ctx context.Context, no *skald.RejectedError) (a answer, rows []skald.Message, err error) {
	problem := (*Problem)(nil)
	if !errors.As(no.Err, &problem) {
		problem = &Problem{Status: http.StatusUnprocessableEntity, Detail: no.Err.Error()}
	}
	if problem == nil || problem.Status < 400 || !storable(problem.Status) {
		return a, nil, fmt.Errorf("the handler refused finally with a status that is not stored: use 400 to 499 except 401, 403, 408, 409, 425 and 429; "+
			"or return the problem without skald.Reject, so that a repeat is done again: %v", no)
	}
	if rows, err = (complete.Completer{}).Messages(ctx, no.Publish); err != nil {
		return a, nil, fmt.Errorf("refuse: %w", err)
	}
	a = problem.toAnswer()
	a.stored, a.rejected, a.reason = true, true, cmp.Or(problem.Detail, no.Err.Error())
	return a, rows, nil
}

// decode decodes the body into v, or returns the problem to send.
func decode(r *http.Request, body []byte, v any) error {
	bad := func(code int, why string, args ...any) error {
		return &Problem{Status: code, Detail: fmt.Sprintf(why, args...)}
	}
	switch v := v.(type) {
	case *[]byte:
		*v = body
		return nil
	case *struct{}:
		if len(body) > 0 {
			return bad(http.StatusBadRequest, "this endpoint takes no body, but %d bytes were sent",
				len(body))
		}
		return nil
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" && !strings.HasSuffix(kind, "+json") {
		return bad(http.StatusUnsupportedMediaType,
			"the Content-Type is %.100q, but this endpoint takes application/json", r.Header.Get("Content-Type"))
	}
	if err := fingerprint.CheckJSON(body); err != nil {
		return bad(http.StatusBadRequest, "the body cannot be decoded: %v", err)
	}
	if string(bytes.TrimSpace(body)) == "null" && !fingerprint.HoldsNull(reflect.TypeOf(v)) {
		return bad(http.StatusBadRequest, "the body is null, but this endpoint needs a value")
	}
	j := json.NewDecoder(bytes.NewReader(body))
	if err := unmarshal(j, v); err != nil {
		return undecoded(err)
	}
	if _, err := j.Token(); !errors.Is(err, io.EOF) {
		return bad(http.StatusBadRequest, "the body has more than one value")
	}
	return nil
}

func unmarshal(j *json.Decoder, v any) (err error) {
	defer failure.Recover(&err)
	return j.Decode(v)
}

// undecoded returns the problem for a body that cannot be decoded. The client sees the text of encoding/json.
// Errors of a type's own UnmarshalJSON are only logged.
func undecoded(err error) error {
	var (
		syntax   *json.SyntaxError
		kind     *json.UnmarshalTypeError
		panicked *failure.PanicError
	)
	switch {
	case errors.As(err, &panicked):
		return err
	case errors.As(err, &syntax), errors.As(err, &kind), errors.Is(err, io.EOF),
		errors.Is(err, io.ErrUnexpectedEOF):
		return &Problem{Status: http.StatusBadRequest,
			Detail: fmt.Sprintf("the body cannot be decoded: %v", err)}
	}
	return &Problem{Status: http.StatusBadRequest, Detail: "the body cannot be decoded", Err: err}
}

// badStatus returns an error if code is not a valid final status.
func badStatus(code int) error {
	if code < 200 || code > 599 {
		return fmt.Errorf("the handler answered with the status %d: it must be 200 to 599", code)
	}
	return nil
}

// encode converts a reply to an answer.
func encode[Out any](ctx context.Context, reply Reply[Out]) (a answer, err error) {
	a.code, a.header = cmp.Or(reply.Code, http.StatusOK), reply.Header.Clone()
	if err := badStatus(a.code); err != nil {
		return a, err
	}
	if a.header == nil {
		a.header = http.Header{}
	}
	if !bodyAllowed(a.code) {
		return a, nil
	}
	if raw, ok := any(reply.Body).([]byte); ok {
		a.body = raw
		return a, checkLength(a.header, int64(len(raw)))
	}
	var m skald.Message
	if err = (skald.JSON{}).Encode(ctx, &m, reply.Body); err != nil { // encoding/json would change bad UTF-8
		return a, fmt.Errorf("encode the body of the reply (a %T): %w", reply.Body, err)
	}
	a.body = m.Data
	if a.header.Get("Content-Type") == "" {
		a.header.Set("Content-Type", "application/json")
	}
	return a, nil
}
