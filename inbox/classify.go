package inbox

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// A Class says what a handler's error means for its message.
type Class string

// Classes.
const (
	Transient      Class = "transient"       // tried again, up to Options.Attempts and Options.Age
	Permanent      Class = "permanent"       // a dead letter at once
	Malformed      Class = "malformed"       // the same: the payload or the envelope cannot be read
	UnknownVersion Class = "unknown version" // tried again, uncharged, up to Options.Age: a newer build may know it
	Panicked       Class = "panic"           // as Transient, with the stack
	Unknown        Class = "unknown outcome" // as Transient: a call to the outside gave no answer
	Outage         Class = "outage"          // nobody's fault: tried again at its place, uncharged, for ever
)

// ViolationIs is an Options.Classify for violations of unique constraints of yours, such as a natural key that is a second guard:
// they are of that class. It knows them by their codes: SQLSTATE 23505 of PostgreSQL's drivers (pgx, lib/pq), 1555 and 2067 of SQLite's
// (modernc). All else is left to Skald. Without, they are Transient: a violation may go when the other row does.
func ViolationIs(c Class) func(m skald.Message, err error) Class {
	return func(_ skald.Message, err error) Class {
		var server interface{ SQLState() string }
		var file interface{ Code() int }
		switch {
		case errors.As(err, &server) && server.SQLState() == "23505":
			return c
		case errors.As(err, &file) && (file.Code() == 1555 || file.Code() == 2067):
			return c
		}
		return ""
	}
}

// MalformedError is the failure of a message whose payload the codec cannot read.
type MalformedError struct{ Err error }

func (e *MalformedError) Error() string { return fmt.Sprintf("malformed: %v", e.Err) }
func (e *MalformedError) Unwrap() error { return e.Err }

// ErrTimeout is the failure of a handler that took longer than Options.Handle.
var ErrTimeout = errors.New("inbox: the handler took longer than Options.Handle")

// classify says whose fault err is.
func (in *Inbox[TTx]) classify(m skald.Message, err error) Class {
	if in.o.Classify != nil {
		if c := in.o.Classify(m, err); c != "" {
			return c
		}
	}
	var panicked *PanicError
	var permanent *skald.PermanentError
	var malformed *MalformedError
	var version *skald.VersionError
	var unknown *UnknownError
	switch {
	case errors.As(err, &panicked):
		return Panicked
	case errors.As(err, &permanent):
		return Permanent
	case errors.As(err, &unknown):
		return Unknown
	case errors.Is(err, ErrTimeout):
		return Transient
	case errors.Is(err, store.ErrBusy), errors.Is(err, store.ErrLost), in.db.Outage(err):
		return Outage // of a registry that a codec asks, too
	case errors.As(err, &version):
		return UnknownVersion
	case errors.As(err, &malformed), errors.Is(err, ErrNoEnvelope), errors.Is(err, ErrNoID):
		return Malformed
	}
	return Transient
}

// mercy is how much longer than a handler may take its transaction lives.
const mercy = 5 * time.Second

// run calls the handler of e, with a bound on its time. One that took longer has failed, unless the whole consumer was told to end; and
// where its transaction may be gone meanwhile, what it says does not count.
func (in *Inbox[TTx]) run(ctx context.Context, e *entry, tx TTx) (r Result, err error) {
	begun := time.Now()
	hctx, cancel := context.WithTimeout(skald.WithCause(ctx, e.Message), in.o.Handle)
	defer cancel()
	r, err = safely(in.handler(e), hctx, tx, e.Message)
	took := time.Since(begun)
	stopped := ctx.Err() != nil && !errors.Is(context.Cause(ctx), ErrTimeout)
	switch {
	case took < in.o.Handle || stopped:
		return r, err
	case ctx.Err() != nil || took >= in.o.Handle+mercy:
		return r, fmt.Errorf("%w (%v): after %v it said: %v", ErrTimeout, in.o.Handle, took.Round(time.Millisecond), err)
	case err != nil:
		return r, fmt.Errorf("%w (%v): %w", ErrTimeout, in.o.Handle, err)
	}
	return r, nil
}

// A PanicError is a handler's panic: a failure with its stack, not a dead process.
type PanicError struct {
	Value any
	Stack []byte
}

func (p *PanicError) Error() string { return fmt.Sprintf("handler panicked: %v\n%s", p.Value, p.Stack) }

func safely[TTx any](h ResultHandler[TTx], ctx context.Context, tx TTx, m skald.Message) (r Result, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return h(ctx, tx, m)
}
