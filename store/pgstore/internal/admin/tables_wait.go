package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

const (
	lockTries    = 60          // for the lock on a table
	LockPause    = time.Second // from one to the next
	firstWait    = 200 * time.Millisecond
	patientTries = lockTries / 4 // then the wait is doubled: 200, 400, 800, 1,600 ms
)

// A BusyError says that a lock was not to be had: whoever works on goes first.
type BusyError struct {
	Table string
	Err   error // of the context, if that ended before all tries were made; or nil
}

func (e *BusyError) Unwrap() error { return e.Err }

func (e *BusyError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("store: waiting for %s, which open transactions held: %v: end the long ones, and run it again, with more time; it goes on where it was",
			e.Table, e.Err)
	}
	return fmt.Sprintf("store: %s was held by open transactions again and again: end the long ones, and run it again; it goes on where it was", e.Table)
}

// lockWait is for how long a try waits for a lock. Those that work go first, and nobody is to wait behind us
// for long: so it is short at first. But a lock that others hand from one to the next is had only by who
// waits for as long as the one that holds it now is open; whoever comes then stands behind us.
func lockWait(try int) time.Duration { return firstWait << (try / patientTries) }

// again tries what did not get its lock again, with a wait that grows.
func again(ctx context.Context, table string, pause time.Duration, try func(wait time.Duration) error) error {
	for n := range lockTries {
		err := try(lockWait(n))
		code := sqlexec.SQLState(err)
		ended := ctx.Err() != nil && (code == "57014" || errors.Is(err, ctx.Err()))
		switch {
		case ended && n > 0: // and the try before was in vain: a table is held
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
