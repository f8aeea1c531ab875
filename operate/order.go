// Package operate has a function for each verb of an operator. The command skald and the console call them.
//
// A function that changes something takes an Order and returns a report. A function that reads returns its
// result. Each takes an interface with the few methods of the store that it calls. Every store of Skald has
// them. A change needs the rights of an app, unless the function documents others. A read and most dry runs
// need the rights of a reader.
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
	// Author and Reason are required, unless DryRun is set. They are recorded in skald_audit in the
	// transaction of the change.
	Author, Reason string
	// DryRun changes nothing: the report describes the change that would be made.
	DryRun bool
	// Run, if not empty, is recorded with each change of Release, Drop, ChangeSagas and Compensate, and
	// ReadRun counts these changes. ChangeSagas leaves out sagas that the run has changed before. Redrive
	// uses Pace.Run instead.
	Run string
	// Confirm is called once, before the first of n changes. Its error ends the verb, and nothing has
	// changed. Nil means no confirmation.
	Confirm func(ctx context.Context, n int) error
	// Progress is called after each change with the number of changes that are done, and of all. Nil means
	// no calls.
	Progress func(done, of int)
}

// checkOrder returns a *UsageError if an order has no author or no reason.
func checkOrder(o *Order) error {
	if !o.DryRun && (strings.TrimSpace(o.Author) == "" || strings.TrimSpace(o.Reason) == "") {
		return &UsageError{"an author and a reason are required: they are recorded in skald_audit"}
	}
	return checkName("the author", o.Author)
}

// checkName returns a *UsageError if name has a control character. A list, a log or a shell would show
// another name.
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

// Report counts the selected messages and the changed ones. In a dry run, Done counts those that would be
// changed.
type Report struct{ Selected, Done int }

// partly returns a *PartialError if rivals changed some of the messages first.
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

// NoMatchError reports that the verb applies to nothing. Nothing has changed.
type NoMatchError struct{ Reason string }

func (e *NoMatchError) Error() string { return e.Reason }

// PartialError reports that only a part was done although nothing failed: a rival changed the rest first.
// The report counts both parts.
type PartialError struct{ Reason string }

func (e *PartialError) Error() string { return e.Reason }

// UnknownConsumerError reports that the database has no data of a consumer. Its name is misspelt, or it
// uses another database.
type UnknownConsumerError struct{ Consumer string }

func (e *UnknownConsumerError) Error() string {
	return fmt.Sprintf(
		"no consumer %s has used this database: check its name and the database",
		e.Consumer)
}

// Applier applies effects: see store.Store.
type Applier interface {
	Apply(ctx context.Context, es ...store.Effect) ([]bool, error)
}

// MarkReader reads the messages that consumers have finished: see store.Store.
type MarkReader interface {
	Seen(ctx context.Context, consumer string, ids []store.Identity) ([]store.Verdict, error)
}

// applyEffect applies one effect. It returns false if a guard was lost, so that nothing was written.
func applyEffect(ctx context.Context, db Applier, e store.Effect) (bool, error) {
	stood, err := db.Apply(ctx, e)
	return err == nil && stood[0], err
}
