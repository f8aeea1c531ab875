package once

import (
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/store"
)

// timed is one call of Do or In, for its metrics.
type timed struct {
	scope  string
	began  time.Time
	undone bool // by an error of the work itself
}

func begin(scope string) *timed { return &timed{scope: scope, began: time.Now()} }

func (t *timed) end(replayed bool, err error) {
	telemetry.Once(t.scope, t.outcome(replayed, err), time.Since(t.began))
}

func (t *timed) outcome(replayed bool, err error) string {
	var (
		no    *RefusedError
		other *ConflictError
		old   *TooOldError
		large *tooLargeError
	)
	switch {
	case err == nil && replayed:
		return telemetry.KeyRepeated
	case err == nil:
		return telemetry.KeyDone
	case t.undone:
		return telemetry.KeyUndone
	case errors.As(err, &no) && no.Err != nil:
		return telemetry.KeyRefused
	case errors.As(err, &no):
		return telemetry.KeyRepeated
	case errors.As(err, &other):
		return telemetry.KeyConflict
	case errors.As(err, &old):
		return telemetry.KeyTooOld
	case errors.As(err, &large):
		return telemetry.KeyTooLarge
	case errors.Is(err, store.ErrBusy):
		return telemetry.KeyInProgress
	}
	return telemetry.KeyFailed
}

// A tooLargeError says that an answer cannot be kept.
type tooLargeError struct {
	what         string // with its verb
	bytes, limit int
}

func (e *tooLargeError) Error() string {
	return fmt.Sprintf("%s %d bytes, at most %d are kept with a mark: keep more in a table of yours", e.what,
		e.bytes, e.limit)
}
