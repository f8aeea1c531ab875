package once

import (
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/store"
)

// timed measures one call of Do or In, and classifies its result for metrics.
type timed struct {
	scope  string
	began  time.Time
	undone bool // the work returned an error
}

func begin(scope string) *timed { return &timed{scope: scope, began: time.Now()} }

func (t *timed) end(replayed bool, err error) {
	telemetry.Once(t.scope, t.outcome(replayed, err), time.Since(t.began))
}

func (t *timed) outcome(replayed bool, err error) string {
	var (
		refused *RefusedError
		other   *ConflictError
		old     *TooOldError
		large   *tooLargeError
	)
	switch {
	case err == nil && replayed:
		return telemetry.KeyRepeated
	case err == nil:
		return telemetry.KeyDone
	case t.undone:
		return telemetry.KeyUndone
	case errors.As(err, &refused) && refused.Err != nil:
		return telemetry.KeyRefused
	case errors.As(err, &refused):
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

// tooLargeError reports that an answer is too large to store.
type tooLargeError struct {
	what         string // subject and verb of the sentence
	bytes, limit int
}

func (e *tooLargeError) Error() string {
	return fmt.Sprintf("%s %d bytes, at most %d are stored with a mark: store more in a table of yours", e.what,
		e.bytes, e.limit)
}
