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

// A Request is what a handler gets.
type Request[In any] struct {
	*http.Request // its Body was read
	Key, Tenant   string
	Body          In
	Locks         []store.Lock // of Options.Entities, with the versions that this transaction gives them
}

// A Reply is what a handler answers. Out is sent as JSON; as it is, where it is []byte.
type Reply[Out any] struct {
	Code   int // default 200
	Header http.Header
	Body   Out
}

// OK is 200.
func OK[Out any](body Out) Reply[Out] { return Reply[Out]{Code: http.StatusOK, Body: body} }

// Created is 201, with where it is.
func Created[Out any](body Out, location string) Reply[Out] {
	return Reply[Out]{Code: http.StatusCreated, Header: http.Header{"Location": {location}}, Body: body}
}

// Accepted is 202, with where to ask how it goes.
func Accepted[Out any](body Out, location string) Reply[Out] {
	return Reply[Out]{Code: http.StatusAccepted, Header: http.Header{"Location": {location}}, Body: body}
}

// A Handler does a request in tx. Do not commit tx. A reply of 2xx, 3xx or 4xx commits its rows, its messages
// and the reply; 401, 403, 408, 409, 425, 429 and 5xx roll back and are not stored. skald.Reject and Refuse
// roll back and are stored. A *Problem rolls back, and is answered; any other error too, with 500, or 503
// where the database is away.
type Handler[TTx, In, Out any] func(ctx context.Context, tx TTx, q Request[In]) (Reply[Out], error)

// Handle makes fn an idempotent endpoint. Name is of the endpoint: with the tenant it is the scope of a key,
// so give each its own. In is decoded from JSON (415 for another Content-Type, 400 for what does not decode;
// neither is stored); []byte is the body as it is; of a struct{} nothing may come. Answers above 64 KiB are
// sent, and kept as "done, body not kept": a repeat is 409.
func Handle[TTx, In, Out any](db Store[TTx], name string, tenant Tenant, o *Options,
	fn Handler[TTx, In, Out]) http.Handler {
	d := newDoor(name, tenant, o, db)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.serve(w, r, func(ctx context.Context, q *asked) (answer, error) {
			in := Request[In]{Request: r, Key: q.key, Tenant: q.tenant}
			if err := decode(r, q.body, &in.Body); err != nil {
				return answer{outcome: telemetry.KeyInvalid}, err
			}
			if err := d.about(r, q); err != nil {
				return answer{}, err
			}
			ctx, began, cancel := d.patiently(ctx)
			defer cancel()
			run, err := once.Begin(ctx, db, q.request)
			if began(); err != nil {
				return answer{}, silent(ctx, err)
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
				err = silent(ctx, err)
			}
			return handled(ctx, d, run, q, r, reply, err)
		})
	})
}

var errNoEntity = errors.New("httpidem.Options.Entities returned an entity without Space or Key: all such requests would wait for each other; give both, or leave it out")

// about has the entities of a request locked with its key.
func (d *door) about(r *http.Request, q *asked) (err error) {
	if d.o.Entities == nil {
		return nil
	}
	err = failure.Run(func() error {
		q.request.Locks = d.o.Entities(r, q.body)
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

// handled ends run with what the handler answered.
func handled[TTx, Out any](ctx context.Context, d *door, run *once.Run[TTx], q *asked, r *http.Request,
	reply Reply[Out], err error) (answer, error) {
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(finishing, d.o.silence()))
	defer cancel()
	a, rows, err := d.judge(ctx, run.Outage, err, func() (answer, error) { return encode(reply) })
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
	case errors.Is(err, store.ErrLent): // the key is marked as done, and what was answered is kept nowhere
		return answer{}, fmt.Errorf("the handler ended the transaction that it was lent; repeats are told that the answer is not kept: %w", err)
	case err != nil:
		return d.again(end, q, err)
	}
	a.kept = &kept
	return a, nil
}

// judge makes of what a handler returned an answer, or an error that is not to be stored. What panics on the
// way, in code of the handler's values and errors, is such an error.
func (d *door) judge(ctx context.Context, outage func(context.Context, error) bool, err error,
	encode func() (answer, error)) (a answer, rows []skald.Message, bad error) {
	defer failure.Recover(&bad)
	var no *skald.RejectedError
	switch {
	case errors.As(err, &no):
		return refused(ctx, no)
	case err != nil && outage(ctx, err):
		return a, nil, skald.Outage(err)
	case err != nil:
		return a, nil, err
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

// refused is the answer of a final "no", and what it says.
func refused(ctx context.Context, no *skald.RejectedError) (a answer, rows []skald.Message, err error) {
	if no.Err == nil {
		return a, nil, skald.ErrNoReason
	}
	problem := (*Problem)(nil)
	if !errors.As(no.Err, &problem) {
		problem = &Problem{Status: http.StatusUnprocessableEntity, Detail: no.Err.Error()}
	}
	if problem == nil || problem.Status < 400 || !storable(problem.Status) {
		return a, nil, fmt.Errorf("the handler refused for good, with a status that is not stored: give 400 to 499, but 401, 403, 408, 409, 425 and 429; "+
			"or return the problem alone, and a repeat is done again: %v", no)
	}
	if rows, err = (complete.Completer{}).Messages(ctx, no.Say); err != nil {
		return a, nil, fmt.Errorf("refuse: %w", err)
	}
	a = problem.answer()
	a.stored, a.rejected, a.reason = true, true, cmp.Or(problem.Detail, no.Err.Error())
	return a, rows, nil
}

// decode reads the body into v.
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
			return bad(http.StatusBadRequest, "this endpoint takes no body, %d bytes came", len(body))
		}
		return nil
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" && !strings.HasSuffix(kind, "+json") {
		return bad(http.StatusUnsupportedMediaType,
			"the Content-Type is %.100q, this endpoint takes application/json", r.Header.Get("Content-Type"))
	}
	if err := fingerprint.CheckJSON(body); err != nil {
		return bad(http.StatusBadRequest, "the body does not decode: %v", err)
	}
	j := json.NewDecoder(bytes.NewReader(body))
	if err := unmarshal(j, v); err != nil {
		return undecoded(err)
	}
	if _, err := j.Token(); !errors.Is(err, io.EOF) {
		return bad(http.StatusBadRequest, "there is more than one value in the body")
	}
	return nil
}

func unmarshal(j *json.Decoder, v any) (err error) {
	defer failure.Recover(&err)
	return j.Decode(v)
}

// undecoded says what is wrong with a body, in the words of encoding/json. The errors of a type's own
// UnmarshalJSON are for the log alone.
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
			Detail: fmt.Sprintf("the body does not decode: %v", err)}
	}
	return &Problem{Status: http.StatusBadRequest, Detail: "the body does not decode", Err: err}
}

// badStatus returns an error if code is no final status of HTTP.
func badStatus(code int) error {
	if code < 200 || code > 599 {
		return fmt.Errorf("the handler answered with the status %d: it must be 200 to 599", code)
	}
	return nil
}

// encode makes the answer of a reply.
func encode[Out any](reply Reply[Out]) (a answer, err error) {
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
		return a, declared(a.header, int64(len(raw)))
	}
	if a.body, err = json.Marshal(reply.Body); err != nil {
		return a, fmt.Errorf("encode the reply: %w", err)
	}
	if a.header.Get("Content-Type") == "" {
		a.header.Set("Content-Type", "application/json")
	}
	return a, nil
}
