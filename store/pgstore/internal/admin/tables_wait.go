package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

const (
	lockTries    = 60                     // maximum number of tries to get a table lock
	LockPause    = time.Second            // between two tries
	firstWait    = 200 * time.Millisecond // maximum wait of the first tries
	patientTries = lockTries / 4          // number of tries until the wait doubles: 200, 400, 800, 1,600 ms
)

// BusyError reports that a table could not be locked, because other transactions use it.
type BusyError struct {
	Table string
	Err   error // the error of the context if it ended before the last try; otherwise nil
}

func (e *BusyError) Unwrap() error { return e.Err }

func (e *BusyError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("store: waited for %s, which open transactions had locked: %v: end the long ones and run it again with more time; it continues where it stopped",
			e.Table, e.Err)
	}
	return fmt.Sprintf("store: %s was locked by open transactions in every try: end the long ones and run it again; it continues where it stopped", e.Table)
}

// lockWait returns the maximum time that try n waits for a lock. The time is short at first, because other
// transactions queue behind the try. It grows, because if transactions always overlap, a try succeeds only
// if it waits longer than the present transaction runs.
func lockWait(n int) time.Duration { return firstWait << (n / patientTries) }

// retryLocked calls f until f gets its lock, with a growing wait. After lockTries calls, or if ctx ends
// after the first call, it returns a *BusyError.
func retryLocked(ctx context.Context, table string, pause time.Duration,
	f func(wait time.Duration) error) error {
	for n := range lockTries {
		err := f(lockWait(n))
		code := sqlexec.SQLState(err)
		ended := ctx.Err() != nil && (code == "57014" || errors.Is(err, ctx.Err()))
		switch {
		case ended && n > 0: // the previous try failed, so the table is in use
			return &BusyError{Table: table, Err: ctx.Err()}
		case code != "55P03" && code != "40P01":
			return err
		}
		select {
		case <-ctx.Done():
			return &BusyError{Table: table, Err: ctx.Err()}
		case <-time.After(pause):
		}
	}
	return &BusyError{Table: table}
}
