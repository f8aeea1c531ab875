package sqlexec

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/skald-go/skald/store"
)

// Default limits of a transaction: the wait for a lock, and the time that its caller may leave it idle.
const (
	DefaultWait   = 5 * time.Second
	DefaultHandle = 60 * time.Second
)

// Call is one statement of a pipeline and the functions that receive its result.
type Call struct {
	SQL  string
	Args []any
	Scan func(Scanner) error // for each row; nil ignores the rows
	Done func(n int64)       // receives the number of rows changed or returned
	Fail func(error) error   // adds detail to its error; nil adds none
	// Need reports whether the call is needed, after the calls before it were answered; nil means always.
	// Some runners send the call without asking.
	Need   func() bool
	Also   bool   // it belongs to a mark, and is needed if another call of that mark is
	With   string // the statement that also does the work of Session; "" means that none does
	Server bool   // With also gets the required server as an argument
}

// Scanner scans a row.
type Scanner interface{ Scan(dest ...any) error }

// Runner runs calls as one READ COMMITTED transaction, in one round trip if it can.
type Runner interface {
	Run(ctx context.Context, calls ...Call) error
	// Within runs f in a transaction that session configures, and commits unless f fails. Each send is a
	// round trip. BEGIN and session share one, because session sets the timeouts: a process that stops
	// between two round trips must not keep locks forever.
	Within(ctx context.Context, session Call, f func(send Sender) error) error
}

// Sender runs calls in an open transaction.
type Sender func(ctx context.Context, calls ...Call) error

// Call returns the statement of that name with its arguments.
func (d *DB) Call(name string, args ...any) Call { return Call{SQL: d.SQL[name], Args: args} }

// Into sets Scan to read a row into dest.
func (c Call) Into(dest ...any) Call {
	c.Scan = func(row Scanner) error { return row.Scan(dest...) }
	return c
}

// Session returns the call that sets the timeouts of its transaction: see the statement.
func (d *DB) Session(wait, idle time.Duration) Call {
	return d.Call("Session", Millis(wait), Millis(idle))
}

// OwnSession returns Session for a transaction of Skald's own.
func (d *DB) OwnSession() Call { return d.ownSession(DefaultWait) }

func (d *DB) ownSession(wait time.Duration) Call {
	return d.Call("OwnSession", Millis(wait), Millis(DefaultHandle))
}

// Millis returns d in milliseconds for a setting of PostgreSQL, at least 1, because 0 means no limit there.
func Millis(d time.Duration) string {
	return strconv.FormatInt(max(d.Milliseconds(), 1), 10)
}

// Short runs calls in a short transaction of Skald's own.
func (d *DB) Short(ctx context.Context, act string, calls ...Call) error {
	return d.Within(ctx, DefaultWait, act, calls...)
}

// Within does as Short, and waits at most wait for a rival.
func (d *DB) Within(ctx context.Context, wait time.Duration, act string, calls ...Call) error {
	if d.Err != nil {
		return d.Err
	}
	if err := d.Runner.Run(waiting(ctx, wait), append([]Call{d.ownSession(wait)}, calls...)...); err != nil {
		return fmt.Errorf("%s: %w", act, d.Own(err))
	}
	return nil
}

// GuardLent returns a call that fails with store.ErrLent in a transaction that a handler began itself.
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

// GuardTemporary returns a call that fails with store.ErrUnshared if the session has temporary objects.
// Several functions used the transaction, and one of them may have computed with the rows of another.
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

// HoldLent returns a call that makes each COMMIT before FreeLent fail. A function that sends COMMIT itself
// gets an error, and the database rolls back the transaction with all marks in it.
func (d *DB) HoldLent() Call { return d.Call("HoldLent") }

// FreeLent returns a call that permits the COMMIT after it.
func (d *DB) FreeLent() Call { return d.Call("FreeLent") }
