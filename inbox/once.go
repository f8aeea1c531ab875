package inbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/complete"
	"github.com/skald-go/skald/internal/fingerprint"
	"github.com/skald-go/skald/store"
)

// Once does work that comes from no broker (a job, a call) once: fn runs in a transaction that Once begins and commits, with
// what it writes and says, its result, and the note that (scope, key) is done. Whoever asks again with the same payload has that
// result: replayed. It is kept for as long as marks are (30 days), encoded as JSON, at most 64 KiB.
//
// Where fn returns skald.Reject, its rows are undone, the refusal is stored, and every call answers a *RefusedError; of any other
// error nothing stays, and the next call tries again. Another payload under the key is a *ConflictError. store.ErrBusy: a rival is
// at it; try again. An error of the commit may hide that it took effect: the next call tells.
//
// Payload is bytes, a string, or a value that is encoded as JSON. A key that is a UUID of version 7 carries its time: once that is
// older than marks are kept, it is a *TooOldError.
func Once[TTx, R any](ctx context.Context, db store.Driver[TTx], scope, key string, payload any, fn func(ctx context.Context, tx TTx) (R, error)) (result R, replayed bool, err error) {
	mark, err := keyMark(ctx, db, scope, key, payload)
	if err != nil {
		return result, false, err
	}
	unit, err := db.Begin(ctx, store.Intake{Marks: []store.Mark{mark}})
	if err != nil {
		return result, false, fmt.Errorf("take %s %.200q: %w", scope, key, err)
	}
	if v := unit.Found().Marks[0]; v.Outcome != store.Fresh {
		_, _ = unit.Rollback(ctx) // nothing was written
		err := replay(v, mark, &result)
		return result, err == nil, err
	}
	r, err := safeOnce(ctx, unit.Tx(), fn)
	leaves, refused, bad := outcome(ctx, mark, r, err)
	switch {
	case bad != nil:
		_, _ = unit.Rollback(ctx)
		return result, false, bad
	case refused == nil:
		if err := unit.Commit(ctx, leaves); err != nil {
			return result, false, fmt.Errorf("commit %s %.200q: %w", scope, key, err)
		}
		return r, false, nil
	}
	leaves.Mark, leaves.Answer = leaves.Answer, nil
	stands, err := unit.Rollback(ctx, leaves)
	if err == nil && !stands[0] {
		err = store.ErrBusy
	}
	if err != nil {
		return result, false, fmt.Errorf("refuse %s %.200q: %w", scope, key, err)
	}
	return result, false, refused
}

// OnceIn is Once in a transaction of yours: what you write there before and behind it stands or falls with it. Behind a
// *RefusedError commit, so that the refusal is kept: of fn's own rows then those stand that it wrote. Behind any other error roll
// back. A rival waits for your commit; you wait for a rival's.
func OnceIn[TTx, R any](ctx context.Context, db store.Driver[TTx], tx TTx, scope, key string, payload any, fn func(ctx context.Context, tx TTx) (R, error)) (result R, replayed bool, err error) {
	mark, err := keyMark(ctx, db, scope, key, payload)
	if err != nil {
		return result, false, err
	}
	found, err := db.Enter(ctx, tx, store.Intake{Marks: []store.Mark{mark}})
	if err != nil {
		return result, false, fmt.Errorf("take %s %.200q: %w", scope, key, err)
	}
	if v := found.Marks[0]; v.Outcome != store.Fresh {
		err := replay(v, mark, &result)
		return result, err == nil, err
	}
	r, err := safeOnce(ctx, tx, fn)
	leaves, refused, bad := outcome(ctx, mark, r, err)
	if bad != nil {
		return result, false, bad
	}
	if err := db.Write(ctx, tx, leaves); err != nil {
		return result, false, fmt.Errorf("store the result of %s %.200q: %w", scope, key, err)
	}
	if refused != nil {
		return result, false, refused
	}
	return r, false, nil
}

// A RefusedError is what fn refused, the first time and each time after.
type RefusedError struct {
	Scope, Key string
	Reason     string
	Err        error // only the first time: what was refused with
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s %.200q is refused: %s", e.Scope, e.Key, e.Reason)
}
func (e *RefusedError) Unwrap() error { return e.Err }

func keyMark[TTx any](ctx context.Context, db store.Driver[TTx], scope, key string, payload any) (store.Mark, error) {
	m := store.Mark{Consumer: scope, Identity: store.Identity{ID: key}, As: store.Done}
	if key == "" || scope == "" {
		return m, errors.New("once: scope and key must not be empty: whoever has no key has nothing to be known by")
	}
	var data []byte
	switch p := payload.(type) {
	case []byte:
		data = p
	case string:
		data = []byte(p)
	default:
		var err error
		if data, err = json.Marshal(payload); err != nil {
			return m, fmt.Errorf("once %s %.200q: encode the payload as JSON: %w", scope, key, err)
		}
	}
	secret, err := db.Secret(ctx)
	if err != nil {
		return m, fmt.Errorf("once %s %.200q: %w", scope, key, err)
	}
	m.Fingerprint = fingerprint.Of(secret, data)
	return m, nil
}

// replay answers what was answered before.
func replay[R any](v store.Verdict, m store.Mark, result *R) error {
	switch judge(v, m.Fingerprint) {
	case store.Conflict:
		return &ConflictError{Consumer: m.Consumer, Identity: m.Identity}
	case store.TooOld:
		return &TooOldError{Consumer: m.Consumer, Identity: m.Identity}
	case store.Rejected:
		return &RefusedError{Scope: m.Consumer, Key: m.ID, Reason: v.Reason}
	}
	if v.Result == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(v.Result), result); err != nil {
		return fmt.Errorf("read the result of %s %.200q: %w", m.Consumer, m.ID, err)
	}
	return nil
}

// outcome is what fn's answer leaves behind. bad: nothing.
func outcome(ctx context.Context, m store.Mark, r any, err error) (leaves store.Effect, refused *RefusedError, bad error) {
	var no *skald.RejectedError
	switch {
	case errors.As(err, &no):
		m.As, m.Reason = store.Rejected, no.Err.Error()
		refused = &RefusedError{Scope: m.Consumer, Key: m.ID, Reason: m.Reason, Err: err}
		if leaves.Rows, bad = (complete.Completer{}).Messages(ctx, no.Say); bad != nil {
			return leaves, nil, fmt.Errorf("refuse %s %.200q: %w", m.Consumer, m.ID, bad)
		}
	case err != nil:
		return leaves, nil, err
	default:
		if m.Result, bad = encoded(ctx, skald.JSON{}, r); bad != nil {
			return leaves, nil, fmt.Errorf("once %s %.200q: %w", m.Consumer, m.ID, bad)
		}
	}
	leaves.Answer = &m
	return leaves, refused, nil
}

func safeOnce[TTx, R any](ctx context.Context, tx TTx, fn func(ctx context.Context, tx TTx) (R, error)) (r R, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return fn(ctx, tx)
}
