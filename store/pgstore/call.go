package pgstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/skald-go/skald/store"
)

// A call is one statement of a pipeline and what becomes of its answer.
type call struct {
	sql  string
	args []any
	scan func(scanner) error // for each row; nil: rows are not looked at
	done func(n int64)       // the rows that it touched, or answered
	fail func(error) error   // says more about its error; nil: it says enough
	// whether it is needed, once the calls before it are answered; nil: always. Not every runner asks
	need func() bool
	also bool   // of a mark that has another call that is needed when this one is
	with string // the statement that does the work of Session too; "": none does
	// server: that statement is given the server that is meant, too.
	server bool
}

type scanner interface{ Scan(dest ...any) error }

// A runner carries out calls as one transaction of its own, READ COMMITTED, in one round trip where it can.
type runner interface {
	run(ctx context.Context, calls ...call) error
	// within gives f a transaction of that kind, and commits it unless f fails. Each send is a round trip.
	within(ctx context.Context, f func(send sender) error) error
}

// A sender carries out calls in an open transaction.
type sender func(ctx context.Context, calls ...call) error

func (c *core) call(name string, args ...any) call { return call{sql: c.sql[name], args: args} }

func (c call) into(dest ...any) call {
	c.scan = func(row scanner) error { return row.Scan(dest...) }
	return c
}

// session binds the transaction that it opens: see the statement.
func (c *core) session(wait, idle time.Duration) call {
	return c.call("Session", millis(wait), millis(idle))
}

// own is session for a transaction of our own.
func (c *core) own() call {
	return c.call("OwnSession", millis(defaultWait), millis(defaultHandle))
}

// bind puts the session's bounds before the calls of an intake: into the first of them where it can take them
// along.
func (c *core) bind(in store.Intake, calls []call) []call {
	wait, idle := cmp.Or(in.Wait, defaultWait), cmp.Or(in.Handle, defaultHandle)
	if len(calls) > 0 && calls[0].with != "" {
		calls[0].sql, calls[0].args = calls[0].with, append(calls[0].args, millis(wait), millis(idle))
	} else {
		calls = slices.Insert(calls, 0, c.session(wait, idle))
	}
	switch {
	case calls[0].server:
		calls[0].args = append(calls[0].args, begun(in.Server))
	case in.Server != "":
		calls = slices.Insert(calls, 1, c.call("GuardServer", begun(in.Server)))
	}
	return calls
}

// millis is d as PostgreSQL's settings have it; there 0 would be for ever.
func millis(d time.Duration) string {
	return strconv.FormatInt(max(d.Milliseconds(), 1), 10)
}

// short runs calls in a short transaction of our own.
func (c *core) short(ctx context.Context, act string, calls ...call) error {
	if c.err != nil {
		return c.err
	}
	return c.runShort(ctx, act, append([]call{c.own()}, calls...))
}

func (c *core) runShort(ctx context.Context, act string, all []call) error {
	if err := c.runner.run(ctx, all...); err != nil {
		return fmt.Errorf("%s: %w", act, c.explain(err))
	}
	return nil
}
