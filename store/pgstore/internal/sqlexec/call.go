package sqlexec

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/skald-go/skald/store"
)

// Default limits of a transaction.
const (
	DefaultWait   = 5 * time.Second  // the maximum wait for a lock
	DefaultHandle = 60 * time.Second // the maximum time that the client may leave the transaction idle
)

// Call is one statement of a pipeline and the functions that receive its result.
type Call struct {
	SQL  string
	Args []any
	Scan func(Scanner) error // for each row; nil ignores the rows
	Done func(n int64)       // receives the number of rows changed or returned
	Fail func(error) error   // adds detail to the error of the statement; nil adds none
	// Need reports, after the results of earlier calls, whether the call is needed. nil means always. A
	// runner may ignore Need and send the call, so the call must also be correct if it is not needed.
	Need func() bool
	Also bool // the call only adds data to another call with Need for the same mark
	// With is a statement that does the work of SQL and of Session; "" if there is none.
	With   string
	Server bool // With also needs the start time of the required server as its last argument
}

// Scanner scans a row.
type Scanner interface{ Scan(dest ...any) error }

// Runner runs calls in READ COMMITTED transactions, over a pgx pool or database/sql.
type Runner interface {
	// Run runs calls as one transaction, in one round trip if the driver can.
	Run(ctx context.Context, calls ...Call) error
	// Within runs f in a transaction that session configures, and commits unless f returns an error. Each
	// call of send is a round trip. BEGIN and session share one round trip, because session sets the
	// timeouts. So a process that stops between two round trips cannot keep locks forever.
	Within(ctx context.Context, session Call, f func(send Sender) error) error
}

// Sender runs calls in an open transaction.
type Sender func(ctx context.Context, calls ...Call) error

// Call returns the call of the statement name with args.
func (d *DB) Call(name string, args ...any) Call { return Call{SQL: d.SQL[name], Args: args} }

// Into returns a copy of c with a Scan that reads the row into dest.
func (c Call) Into(dest ...any) Call {
	c.Scan = func(row Scanner) error { return row.Scan(dest...) }
	return c
}

// Session returns the call that sets the lock timeout and the idle timeout of a transaction that a handler
// will use. The call also marks the transaction for GuardLent.
func (d *DB) Session(lockTimeout, idleTimeout time.Duration) Call {
	return d.Call("Session", Millis(lockTimeout), Millis(idleTimeout))
}

// OwnSession returns the call that sets the timeouts of a transaction with only Skald's own statements.
func (d *DB) OwnSession(lockTimeout time.Duration) Call {
	return d.Call("OwnSession", Millis(lockTimeout), Millis(DefaultHandle))
}

// Millis returns d in milliseconds for a timeout setting of PostgreSQL. It returns at least 1, because 0
// means no timeout.
func Millis(d time.Duration) string {
	return strconv.FormatInt(max(d.Milliseconds(), 1), 10)
}

// Short runs the calls as one transaction. A call waits for a lock at most for the time DefaultWait. The
// errors start with act.
func (d *DB) Short(ctx context.Context, act string, calls ...Call) error {
	return d.Within(ctx, DefaultWait, act, calls...)
}

// Within does as Short, but a call waits for a lock at most for the time lockTimeout.
func (d *DB) Within(ctx context.Context, lockTimeout time.Duration, act string, calls ...Call) error {
	if d.Err != nil {
		return d.Err
	}
	if err := d.Runner.Run(withLockWait(ctx, lockTimeout),
		append([]Call{d.OwnSession(lockTimeout)}, calls...)...); err != nil {
		return fmt.Errorf("%s: %w", act, d.Own(err))
	}
	return nil
}

// GuardLent returns a call that fails with store.ErrLent if the handler ended the transaction of Skald and
// began its own.
func (d *DB) GuardLent() Call {
	guard := d.Call("GuardLent")
	guard.Fail = func(err error) error {
		if SQLState(err) == "22012" {
			return store.ErrLent
		}
		return err
	}
	return guard
}

// GuardTemporary returns a call that fails with store.ErrUnshared if the session has temporary objects. It is
// for a transaction that several functions shared: a function may have read the temporary rows of another
// function.
func (d *DB) GuardTemporary() Call {
	guard := d.Call("GuardTemporary")
	guard.Fail = func(err error) error {
		if SQLState(err) == "22012" {
			return store.ErrUnshared
		}
		return err
	}
	return guard
}

// HoldLent returns a call that makes each COMMIT before FreeLent fail. If a handler sends COMMIT, it gets an
// error, and the database rolls back the transaction with all its marks.
func (d *DB) HoldLent() Call { return d.Call("HoldLent") }

// FreeLent returns a call that permits the COMMIT after it.
func (d *DB) FreeLent() Call { return d.Call("FreeLent") }
