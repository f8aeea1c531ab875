// Package operate has the functions of operators: they inspect and change messages, sagas, consumers and the
// outbox. The command skald and the console call these functions.
//
// A function that changes data takes an Order and returns a report. Each function takes an interface with the
// few methods of a store that it calls; every store of Skald implements all of these interfaces. A change
// needs the rights of an app, unless the function documents other rights. A read needs the rights of a
// reader, and so do most dry runs.
package operate

import (
	"context"
	"fmt"
	"strings"

	"github.com/skald-go/skald/internal/shortlog"
	"github.com/skald-go/skald/store"
)

// Order is the author, the reason and the options of a change.
type Order struct {
	// Author and Reason are required, unless DryRun is set. The transaction of the change also records them
	// in skald_audit.
	Author, Reason string
	// DryRun changes nothing. The report describes the change that would be made.
	DryRun bool
	// Run, if not empty, is recorded with each change of Release, Drop, ChangeSagas and Compensate. ReadRun
	// counts these changes. Release and ChangeSagas leave out messages and sagas that the run has changed
	// before. Redrive uses Pace.Run instead.
	Run string
	// Confirm, if not nil, is called once, before the first of n changes. If it returns an error, nothing is
	// changed, and the function returns this error.
	Confirm func(ctx context.Context, n int) error
	// Progress, if not nil, is called after each change with the number of changes so far, and the number of
	// all changes.
	Progress func(done, of int)
}

// checkOrder returns a *UsageError if an order has no author or no reason.
func checkOrder(o *Order) error {
	if !o.DryRun && (strings.TrimSpace(o.Author) == "" || strings.TrimSpace(o.Reason) == "") {
		return &UsageError{"an author and a reason are required: they are recorded in skald_audit"}
	}
	return checkName("the author", o.Author)
}

// checkName returns a *UsageError if name has a control character. With such a character, a terminal or a log
// may show another name.
func checkName(about, name string) error {
	if err := shortlog.CheckName(about, name); err != nil {
		return &UsageError{Reason: err.Error()}
	}
	return nil
}

// confirm calls Order.Confirm, unless it is nil or the order is a dry run.
func confirm(ctx context.Context, o *Order, n int) error {
	if o.DryRun || o.Confirm == nil {
		return nil
	}
	return o.Confirm(ctx, n)
}

// progress calls Order.Progress, unless it is nil.
func progress(o *Order, done, of int) {
	if o.Progress != nil {
		o.Progress(done, of)
	}
}

// auditOf returns the audit of a change to a message.
func auditOf(o *Order, what, consumer string, id store.Identity) *store.Audit {
	return &store.Audit{Author: o.Author, Reason: o.Reason, Action: what, Consumer: consumer, Identity: id}
}

// Report counts the selected messages and the changed messages. In a dry run, Done counts the messages that
// would be changed.
type Report struct{ Selected, Done int }

// partly returns a *PartialError if some of the selected messages were not changed.
func partly(r *Report, verb string) error {
	if r.Done == r.Selected {
		return nil
	}
	return &PartialError{
		fmt.Sprintf("%s: %d of %d messages were finished, or changed by another process first: list them, and try again",
			verb, r.Selected-r.Done, r.Selected)}
}

// UsageError reports a missing or invalid argument. Nothing has changed.
type UsageError struct{ Reason string }

func (e *UsageError) Error() string { return e.Reason }

// NoMatchError reports that nothing is selected. Nothing has changed.
type NoMatchError struct{ Reason string }

func (e *NoMatchError) Error() string { return e.Reason }

// PartialError reports that only some of the selected messages or sagas were changed. The others were left
// unchanged, for example because another process changed them first. The report counts both.
type PartialError struct{ Reason string }

func (e *PartialError) Error() string { return e.Reason }

// UnknownConsumerError reports that the database has no data of a consumer. Its name may be misspelt, or the
// consumer may use another database.
type UnknownConsumerError struct{ Consumer string }

func (e *UnknownConsumerError) Error() string {
	return fmt.Sprintf(
		"no consumer %s has used this database: check its name and the database",
		e.Consumer)
}

// Applier writes effects to a store: see store.Store.
type Applier interface {
	Apply(ctx context.Context, es ...store.Effect) ([]bool, error)
}

// MarkReader reads the marks of messages that consumers have finished: see store.Store.
type MarkReader interface {
	Seen(ctx context.Context, consumer string, ids []store.Identity) ([]store.Verdict, error)
}

// applyEffect writes one effect. It returns false if a guard of the effect failed, so that nothing was
// written.
func applyEffect(ctx context.Context, db Applier, e store.Effect) (bool, error) {
	applied, err := db.Apply(ctx, e)
	return err == nil && applied[0], err
}
