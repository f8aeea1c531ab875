// Package once runs work once by key: a job, an HTTP request, a call of another service. The mark of the key
// commits together with what the work writes, so a repeat finds the stored answer, and a crash leaves either
// both or nothing. Do and In run a function; Begin and Enter are the steps below them, for a station or a
// door that runs the work itself.
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

// Do runs fn once for a key. It begins a transaction, runs fn in it, and commits fn's rows and messages, its
// result, and the mark that (scope, key) is done. Every later call with the same payload returns the stored
// result, and replayed is true. The result is kept for as long as marks are (30 days), encoded as JSON, at
// most 64 KiB.
//
// Where fn returns skald.Reject, its rows are rolled back, the refusal is stored with fn's result and the
// code of a *Refusal, and this and every later call returns both and a *RefusedError. After any other error
// nothing is stored, and the next call runs fn again. A call with another payload is a *ConflictError.
// store.ErrBusy: another call has the key in hand; try again. An error of the commit may hide that it took
// effect: the next call tells.
//
// Payload is bytes, a string, or a value that is encoded as JSON. A key that is a UUID of version 7 carries
// its time: once that is older than marks are kept, it is a *TooOldError.
func Do[TTx, R any](ctx context.Context, db Store[TTx], scope, key string, payload any,
	fn func(ctx context.Context, tx TTx) (R, error)) (result R, replayed bool, err error) {
	q, err := request(scope, key, payload)
	if err != nil {
		return result, false, err
	}
	return DoRequest(ctx, db, q,
		func(ctx context.Context, run *Run[TTx]) (R, error) { return fn(ctx, run.Tx()) })
}

// DoRequest is Do for a whole Request: with a bound on the wait, and with entities that are locked in the
// same round trip. The run is DoRequest's to end.
func DoRequest[TTx, R any](ctx context.Context, db Store[TTx], q Request,
	fn func(ctx context.Context, run *Run[TTx]) (R, error)) (result R, replayed bool, err error) {
	t := begin(q.Scope)
	defer func() { t.end(replayed, err) }()
	run, err := Begin(ctx, db, q)
	if err != nil {
		return result, false, err
	}
	defer run.Close(ctx)
	lent := lending.With(ctx, lending.Loan{Tx: run.Tx(), Consumer: "Once of " + q.Scope, ID: q.Key})
	return finish(ctx, run, t, func() (R, error) {
		return safely(lent, run.Tx(), func(ctx context.Context, _ TTx) (R, error) { return fn(ctx, run) })
	})
}

// In is Do in a transaction of yours: what you write there before and after it commits or rolls back with it.
// After a *RefusedError commit, so that the refusal is kept: the rows that fn wrote then stay too. After any
// other error roll back. A rival waits for your commit; you wait for a rival's.
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

// A Refusal is a reason for skald.Reject that has a code, which is stored with it.
type Refusal struct {
	Code int32
	Err  error // the reason
}

func (e *Refusal) Error() string { return fmt.Sprint(e.Err) }
func (e *Refusal) Unwrap() error { return e.Err }

// A RefusedError is what fn refused, the first time and each time after.
type RefusedError struct {
	Scope, Key string
	Reason     string
	Code       int32 // of a *Refusal; 0: none
	Err        error // only the first time: what fn refused with
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s %.200q is refused: %s", e.Scope, e.Key, e.Reason)
}
func (e *RefusedError) Unwrap() error { return e.Err }

// finish returns what is stored under the key of run, or runs fn and stores its answer.
func finish[TTx, R any](ctx context.Context, run *Run[TTx], t *timed,
	fn func() (R, error)) (result R, replayed bool, err error) {
	if a, done := run.Answer(); done {
		result, err = Replay[R](run.request, a)
		return result, err == nil, err
	}
	r, err := fn()
	var no *skald.RejectedError
	switch {
	case errors.As(err, &no) && no.Err == nil:
		run.Rollback(ctx)
		return result, false, fmt.Errorf("once %s: %w", run.request, skald.ErrNoReason)
	case errors.As(err, &no):
		return r, false, refuse(ctx, run, r, err, no)
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

func refuse[TTx, R any](ctx context.Context, run *Run[TTx], r R, err error, no *skald.RejectedError) error {
	rows, bad := complete.Completer{}.Messages(ctx, no.Say)
	a := Answer{Rejected: true, Reason: no.Err.Error()}
	if bad == nil && !reflect.ValueOf(&r).Elem().IsZero() {
		a.Result, bad = Encode(ctx, skald.JSON{}, r)
	}
	if bad != nil {
		run.Rollback(ctx)
		return fmt.Errorf("refuse %s: %w", run.request, bad)
	}
	if coded := (*Refusal)(nil); errors.As(no.Err, &coded) && coded != nil {
		a.Code = coded.Code
	}
	if bad := run.Commit(ctx, a, rows...); bad != nil {
		return bad
	}
	return &RefusedError{Scope: run.request.Scope, Key: run.request.Key, Reason: a.Reason, Code: a.Code,
		Err: err}
}

// Replay reads the stored answer of a Run as Do returns it: a result, of a refusal with a *RefusedError.
func Replay[R any](q Request, a Answer) (result R, err error) {
	if a.Result != "" {
		err = json.Unmarshal([]byte(a.Result), &result)
	}
	switch {
	case a.Rejected: // whatever its body is
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
