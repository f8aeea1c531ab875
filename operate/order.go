// Package operate has a function for each verb of an operator. The command skald and the console call them.
//
// A function that changes something takes an Order and returns a report. A function that reads returns what
// it found. Each takes an interface with the few methods of the store that it calls; every store of Skald
// has them. A change needs the rights of an app, unless the function documents others. A read and most dry
// runs need those of a reader.
package operate

import (
	"context"
	"fmt"
	"strings"

	"github.com/skald-go/skald/store"
)

// An Order says who wants a change, why, and how it is carried out.
type Order struct {
	// Author and Reason are required, unless DryRun is set. They are recorded in skald_audit in the
	// transaction of the change.
	Author, Reason string
	// DryRun changes nothing: the report tells what would be changed.
	DryRun bool
	// Run, if it is not empty, is noted with each change of Release, Drop, ChangeSagas and Compensate:
	// ReadRun counts them. ChangeSagas leaves out what the run has changed before. Redrive has Pace.Run.
	Run string
	// Confirm is asked once, before the first of n changes. Its error ends the verb, and nothing has changed.
	// Nil: nobody is asked.
	Confirm func(ctx context.Context, n int) error
	// Progress is called after each change, with how many are done, of how many. Nil: nobody wants to know.
	Progress func(done, of int)
}

// checkOrder is a UsageError where an order has no author or no reason.
func checkOrder(o *Order) error {
	if !o.DryRun && (strings.TrimSpace(o.Author) == "" || strings.TrimSpace(o.Reason) == "") {
		return &UsageError{"an author and a reason are required: they are recorded in skald_audit"}
	}
	return nil
}

// confirm asks whether n changes are meant, if somebody is to be asked.
func confirm(ctx context.Context, o *Order, n int) error {
	if o.DryRun || o.Confirm == nil {
		return nil
	}
	return o.Confirm(ctx, n)
}

// progress tells how many changes are done, of how many.
func progress(o *Order, done, of int) {
	if o.Progress != nil {
		o.Progress(done, of)
	}
}

// auditOf is what is recorded of a change to a message.
func auditOf(o *Order, what, consumer string, id store.Identity) *store.Audit {
	return &store.Audit{Author: o.Author, Reason: o.Reason, Action: what, Consumer: consumer, Identity: id}
}

// A Report tells how many messages were selected, and how many of them were changed; in a dry run, would be.
type Report struct{ Selected, Done int }

// partly is the error of a verb that was overtaken with some of its messages.
func partly(r *Report, verb string) error {
	if r.Done == r.Selected {
		return nil
	}
	return &PartlyError{
		fmt.Sprintf("%s: %d of %d messages were finished, or somebody else was first: look what there is, and try again",
			verb, r.Selected-r.Done, r.Selected)}
}

// A UsageError says what is missing or wrong in what was asked for. Nothing has changed.
type UsageError struct{ What string }

func (e *UsageError) Error() string { return e.What }

// A NoneError says that there is nothing which the verb could be about. Nothing has changed.
type NoneError struct{ What string }

func (e *NoneError) Error() string { return e.What }

// A PartlyError says that only a part was done although nothing failed: somebody else was first with the
// rest. The report tells how much.
type PartlyError struct{ What string }

func (e *PartlyError) Error() string { return e.What }

// An UnknownConsumerError says that a database knows nothing of a consumer: its name is misspelt, or it is
// another database's.
type UnknownConsumerError struct{ Consumer string }

func (e *UnknownConsumerError) Error() string {
	return fmt.Sprintf(
		"no consumer %s has ever run with these tables: check its name and the database",
		e.Consumer)
}

// An Applier carries out effects: see store.Store.
type Applier interface {
	Apply(ctx context.Context, es ...store.Effect) ([]bool, error)
}

// A Seer looks up what consumers have finished: see store.Store.
type Seer interface {
	Seen(ctx context.Context, consumer string, ids []store.Identity) ([]store.Verdict, error)
}

// applyEffect carries out one effect. False: a guard was lost, and nothing of it stands.
func applyEffect(ctx context.Context, db Applier, e store.Effect) (bool, error) {
	stood, err := db.Apply(ctx, e)
	return err == nil && stood[0], err
}
