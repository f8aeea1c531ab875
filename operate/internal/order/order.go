// Package order is what the verbs of an operator have in common: the order that each is given, the report
// and the errors that it returns, and what it asks of a store at the least.
package order

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

// Check is a UsageError where an order has no author or no reason.
func Check(o *Order) error {
	if !o.DryRun && (strings.TrimSpace(o.Author) == "" || strings.TrimSpace(o.Reason) == "") {
		return &UsageError{"an author and a reason are required: they are recorded in skald_audit"}
	}
	return nil
}

// Confirm asks whether n changes are meant, if somebody is to be asked.
func Confirm(ctx context.Context, o *Order, n int) error {
	if o.DryRun || o.Confirm == nil {
		return nil
	}
	return o.Confirm(ctx, n)
}

// Progress tells how many changes are done, of how many.
func Progress(o *Order, done, of int) {
	if o.Progress != nil {
		o.Progress(done, of)
	}
}

// Audit is what is recorded of a change to a message.
func Audit(o *Order, what, consumer string, id store.Identity) *store.Audit {
	return &store.Audit{Author: o.Author, Reason: o.Reason, Action: what, Consumer: consumer, Identity: id}
}

// A Report tells how many messages were selected, and how many of them were changed; in a dry run, would be.
type Report struct{ Selected, Done int }

// Partly is the error of a verb that was overtaken with some of its messages.
func Partly(r *Report, verb string) error {
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

// A PartlyError says that somebody else was first with a part: see operate.PartlyError.
type PartlyError struct{ What string }

func (e *PartlyError) Error() string { return e.What }

// An UnknownConsumerError says that a database knows nothing of a consumer.
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

// Apply carries out one effect. False: a guard was lost, and nothing of it stands.
func Apply(ctx context.Context, db Applier, e store.Effect) (bool, error) {
	stood, err := db.Apply(ctx, e)
	return err == nil && stood[0], err
}
