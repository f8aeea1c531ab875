// Package once runs work once per key: a job, an HTTP request, a call of another service. It commits the mark
// of the key together with the writes of the work. So a repeat gets the stored answer, and a crash leaves
// both or neither.
//
// Do and In run a function. Begin and Enter are the lower level, for callers that run the work themselves.
// Reserve is for work outside of Skald's transactions.
//
// # For drivers
//
// Judge, Encode, EncodeEmitted, DecodeEmitted, Replay, Seal, Sealed, Entry, Hint, Seer and Reserver are for
// packages that store or cache answers: inbox, httpidem and rediscache.
package once

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/internal/complete"
	"github.com/skald-go/skald/internal/lending"
)

// Do runs fn once for a key. It runs fn in a transaction, and commits the rows and messages of fn, its
// result, and the mark that (scope, key) is done. Each later call with the same payload returns the stored
// result, with replayed true. The result is stored as JSON of at most 64 KiB, for the retention of marks (30
// days).
//
// If fn returns skald.Reject, Do rolls back the rows of fn. It stores the refusal with the result of fn and
// the code of a *Refusal. This call and each later one return that result and a *RefusedError. After any
// other error nothing is stored, and the next call runs fn again.
//
// A call with another payload returns a *ConflictError. If another call has the key in progress, Do returns
// store.ErrBusy: try again. If the commit returns an error, it may have taken effect; the next call detects
// that.
//
// The payload is bytes, a string, or a value that Do encodes as JSON. A key that is a UUID of version 7
// contains its time. If that is older than the retention of marks, Do returns a *TooOldError.
func Do[TTx, R any](ctx context.Context, db Store[TTx], scope, key string, payload any,
	fn func(ctx context.Context, tx TTx) (R, error)) (result R, replayed bool, err error) {
	q, err := request(scope, key, payload)
	if err != nil {
		return result, false, err
	}
	return DoRequest(ctx, db, q,
		func(ctx context.Context, run *Run[TTx]) (R, error) { return fn(ctx, run.Tx()) })
}

// DoRequest runs fn once, like Do, for a complete Request. A Request can limit the wait, and lock entities in
// the same round trip. DoRequest ends the run; fn must not end it.
func DoRequest[TTx, R any](ctx context.Context, db Store[TTx], q Request,
	fn func(ctx context.Context, run *Run[TTx]) (R, error)) (result R, replayed bool, err error) {
	t := begin(q.Scope)
	defer func() { t.end(replayed, err) }()
	run, err := Begin(ctx, db, q)
	if err != nil {
		return result, false, err
	}
	defer run.Close(ctx)
	inner := lending.With(ctx, lending.Loan{Tx: run.Tx(), Consumer: "Once of " + q.Scope, ID: q.Key})
	return finish(ctx, run, t, func() (R, error) {
		return safely(inner, run.Tx(), func(ctx context.Context, _ TTx) (R, error) { return fn(ctx, run) })
	})
}

// In runs fn once, like Do, but within a transaction of the caller. The caller commits or rolls back the
// answer together with its other writes. After a *RefusedError commit, so that the refusal is stored; this
// also stores the rows of fn. After any other error roll back. Concurrent calls with one key wait for each
// other's commit.
func In[TTx, R any](ctx context.Context, db Store[TTx], tx TTx, scope, key string, payload any,
	fn func(ctx context.Context, tx TTx) (R, error)) (result R, replayed bool, err error) {
	q, err := request(scope, key, payload)
	if err != nil {
		return result, false, err
	}
	t := begin(q.Scope)
	defer func() { t.end(replayed, err) }()
	run, err := Enter(ctx, db, tx, q)
	if err != nil {
		return result, false, err
	}
	return finish(ctx, run, t, func() (R, error) { return safely(ctx, tx, fn) })
}

// Refusal is a reason for skald.Reject with a code, which is stored.
type Refusal struct {
	Code int32
	Err  error // the reason
}

func (e *Refusal) Error() string { return fmt.Sprint(e.Err) }
func (e *Refusal) Unwrap() error { return e.Err }

// RefusedError reports that fn refused the work with skald.Reject, in this call or in an earlier one.
type RefusedError struct {
	Scope, Key string
	Reason     string
	Code       int32 // the code of a *Refusal, or 0
	Err        error // the error of fn; nil if an earlier call ran fn
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s %.200q is refused: %s", e.Scope, e.Key, e.Reason)
}
func (e *RefusedError) Unwrap() error { return e.Err }

// finish returns the stored answer of a run. If no answer is stored, finish runs fn and stores its answer.
func finish[TTx, R any](ctx context.Context, run *Run[TTx], t *timed,
	fn func() (R, error)) (result R, replayed bool, err error) {
	if a, done := run.Answer(); done {
		result, err = Replay[R](run.request, a)
		return result, err == nil, err
	}
	r, err := fn()
	err = failure.Legible(err)
	var rejected *skald.RejectedError
	switch {
	case errors.As(err, &rejected):
		return r, false, refuse(ctx, run, r, err, rejected)
	case err != nil:
		t.undone = true
		run.Rollback(ctx)
		return result, false, err
	}
	text, err := Encode(ctx, skald.JSON{}, r)
	if err != nil {
		run.Rollback(ctx)
		return result, false, fmt.Errorf("once %s: %w", run.request, err)
	}
	if err := run.Commit(ctx, Answer{Result: text}); err != nil {
		return result, false, err
	}
	return r, false, nil
}

func refuse[TTx, R any](ctx context.Context, run *Run[TTx], r R, err error,
	rejected *skald.RejectedError) error {
	rows, bad := complete.Completer{}.Messages(ctx, rejected.Publish)
	a := Answer{Rejected: true, Reason: rejected.Err.Error()}
	if bad == nil && !reflect.ValueOf(&r).Elem().IsZero() {
		a.Result, bad = Encode(ctx, skald.JSON{}, r)
	}
	if bad != nil {
		run.Rollback(ctx)
		return fmt.Errorf("refuse %s: %w", run.request, bad)
	}
	if coded := (*Refusal)(nil); errors.As(rejected.Err, &coded) && coded != nil {
		a.Code = coded.Code
	}
	if bad := run.Commit(ctx, a, rows...); bad != nil {
		return bad
	}
	return &RefusedError{Scope: run.request.Scope, Key: run.request.Key, Reason: a.Reason, Code: a.Code,
		Err: err}
}

// Replay decodes the stored answer of a Run, and returns it as Do does: the result, and for a refusal a
// *RefusedError.
func Replay[R any](q Request, a Answer) (result R, err error) {
	if a.Result != "" {
		err = json.Unmarshal([]byte(a.Result), &result)
	}
	switch {
	case a.Rejected: // even if the result cannot be decoded
		return result, &RefusedError{Scope: q.Scope, Key: q.Key, Reason: a.Reason, Code: a.Code}
	case err != nil:
		return result, fmt.Errorf("read the result of %s: %w", q, err)
	}
	return result, nil
}

func request(scope, key string, payload any) (q Request, err error) {
	q = Request{Scope: scope, Key: key}
	switch p := payload.(type) {
	case []byte:
		q.Payload = p
	case string:
		q.Payload = []byte(p)
	default:
		var m skald.Message
		if err = (skald.JSON{}).Encode(context.Background(), &m, payload); err != nil {
			return q, fmt.Errorf("once %s: the payload: %w", q, err)
		}
		q.Payload = m.Data
	}
	return q, nil
}

func safely[TTx, R any](ctx context.Context, tx TTx,
	fn func(ctx context.Context, tx TTx) (R, error)) (r R, err error) {
	defer failure.Recover(&err)
	return fn(ctx, tx)
}
