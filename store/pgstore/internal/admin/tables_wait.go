package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

const (
	lockTries    = 60          // for a table lock
	LockPause    = time.Second // between two tries
	firstWait    = 200 * time.Millisecond
	patientTries = lockTries / 4 // tries until the wait doubles: 200, 400, 800, 1,600 ms
)

// BusyError reports that a table lock was not free, because other transactions use the table.
type BusyError struct {
	Table string
	Err   error // of the context, if that ended before all tries; otherwise nil
}

func (e *BusyError) Unwrap() error { return e.Err }

func (e *BusyError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("store: waited for %s, which open transactions had locked: %v: end the long ones and run it again with more time; it continues where it stopped",
			e.Table, e.Err)
	}
	return fmt.Sprintf("store: %s was locked by open transactions in every try: end the long ones and run it again; it continues where it stopped", e.Table)
}

// lockWait returns the maximum wait of a try. At first it is short, because other transactions queue behind
// it. But if transactions always overlap, a wait gets the lock only if it is longer than the current one.
func lockWait(try int) time.Duration { return firstWait << (try / patientTries) }

// again repeats try until it gets its lock. The wait grows.
func again(ctx context.Context, table string, pause time.Duration, try func(wait time.Duration) error) error {
	for n := range lockTries {
		err := try(lockWait(n))
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
