package sqlexec

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/skald-go/skald/store"
)

// Bounds of a transaction that has none of its own: on a lock, and on what its caller does in between.
const (
	DefaultWait   = 5 * time.Second
	DefaultHandle = 60 * time.Second
)

// A Call is one statement of a pipeline and what becomes of its answer.
type Call struct {
	SQL  string
	Args []any
	Scan func(Scanner) error // for each row; nil: rows are not looked at
	Done func(n int64)       // the rows that it touched, or answered
	Fail func(error) error   // says more about its error; nil: it says enough
	// Need tells, once the calls before it are answered, whether it is needed; nil: always. Not every runner
	// asks.
	Need   func() bool
	Also   bool   // of a mark that has another call that is needed when this one is
	With   string // the statement that does the work of Session too; "": none does
	Server bool   // With is given the server that is meant, too
}

// A Scanner is a row.
type Scanner interface{ Scan(dest ...any) error }

// A Runner carries out calls as one transaction of its own, READ COMMITTED, in one round trip where it can.
type Runner interface {
	Run(ctx context.Context, calls ...Call) error
	// Within gives f a transaction of that kind, and commits it unless f fails. Each send is a round trip.
	// BEGIN and session, which bounds the transaction, are one: a process that stops between two round trips
	// must not keep locks forever.
	Within(ctx context.Context, session Call, f func(send Sender) error) error
}

// A Sender carries out calls in an open transaction.
type Sender func(ctx context.Context, calls ...Call) error

// Call is the statement of that name, with its arguments.
func (d *DB) Call(name string, args ...any) Call { return Call{SQL: d.SQL[name], Args: args} }

// Into reads a row into dest.
func (c Call) Into(dest ...any) Call {
	c.Scan = func(row Scanner) error { return row.Scan(dest...) }
	return c
}

// Session binds the transaction that it opens: see the statement.
func (d *DB) Session(wait, idle time.Duration) Call {
	return d.Call("Session", Millis(wait), Millis(idle))
}

// OwnSession is Session for a transaction of our own.
func (d *DB) OwnSession() Call { return d.ownSession(DefaultWait) }

func (d *DB) ownSession(wait time.Duration) Call {
	return d.Call("OwnSession", Millis(wait), Millis(DefaultHandle))
}

// Millis is d as PostgreSQL's settings have it; there 0 would be for ever.
func Millis(d time.Duration) string {
	return strconv.FormatInt(max(d.Milliseconds(), 1), 10)
}

// Short runs calls in a short transaction of our own.
func (d *DB) Short(ctx context.Context, act string, calls ...Call) error {
	return d.Within(ctx, DefaultWait, act, calls...)
}

// Within is Short, and waits for so long for a rival at most.
func (d *DB) Within(ctx context.Context, wait time.Duration, act string, calls ...Call) error {
	if d.Err != nil {
		return d.Err
	}
	if err := d.Runner.Run(waiting(ctx, wait), append([]Call{d.ownSession(wait)}, calls...)...); err != nil {
		return fmt.Errorf("%s: %w", act, d.Own(err))
	}
	return nil
}

// GuardLent fails with store.ErrLent in a transaction that a handler began itself.
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

// HoldLent keeps the transaction from being committed before FreeLent. A function that sends COMMIT itself
// gets an error, and the database rolls back the transaction with all marks in it.
func (d *DB) HoldLent() Call { return d.Call("HoldLent") }

// FreeLent permits the COMMIT that follows.
func (d *DB) FreeLent() Call { return d.Call("FreeLent") }
