package operate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/skald-go/skald/flow"
	"github.com/skald-go/skald/store"
)

// CompensateStore is the part of a store.Driver that Compensate needs.
type CompensateStore[TTx any] interface {
	store.Lister
	store.Tracker[TTx]
	Begin(ctx context.Context, in store.Intake) (store.Unit[TTx], error)
}

// CompensateRequest selects the saga that Compensate undoes.
type CompensateRequest struct {
	Key    string
	Flow   string // may be empty if only one flow has a saga with the key
	Repeat bool   // publishes undo events again that no service has answered yet
}

// CompensateReport describes the undos that Compensate requested, or that a dry run would request.
type CompensateReport struct{ flow.Compensation }

// Compensate requests the undo of a choreographed saga. For each step that took effect, it writes the undo
// events that the flow declares into the outbox of the tracker's database. The same transaction records
// these events in the row of the saga, so a second call requests no undo twice. The service of a step undoes
// the step with inbox.UndoOn, which skips a step that is already undone. If the flow declares no undo for a
// step that took effect, Compensate writes no events, and its error names the step.
func Compensate[TTx any](ctx context.Context, db CompensateStore[TTx], w CompensateRequest,
	o Order) (r CompensateReport, err error) {
	if err := checkOrder(&o); err != nil {
		return r, err
	}
	row, err := rowOf(ctx, db, w)
	if err != nil {
		return r, err
	}
	w.Flow = row.Flow
	if o.DryRun { // a dry run locks nothing, so the rights of a reader suffice
		return compensation(row, w)
	}
	if err := confirm(ctx, &o, 1); err != nil {
		return r, err
	}
	unit, err := db.Begin(ctx, store.Intake{})
	if err != nil {
		return r, err
	}
	rows, err := db.LockTracked(ctx, unit.Tx(), w.Flow, w.Key)
	if err == nil {
		r, err = compensation(rows[0], w)
	}
	if err != nil || len(r.Events) == 0 {
		_, _ = unit.Rollback(ctx) // an error is harmless: nothing was written
		return r, err
	}
	first := &r.Events[0]
	did := fmt.Sprintf("compensate %s %s: %s", r.Flow, r.Key, stepsOf(&r.Compensation))
	audit := auditOf(&o, did, "", store.Identity{Source: first.Source, ID: first.ID})
	audit.Run = o.Run
	err = unit.Commit(ctx,
		store.Effect{Rows: r.Events, Audit: audit, Tracked: []store.Tracked{r.Row}})
	if limit := new(store.LimitError); errors.As(err, &limit) {
		return r, &UsageError{Reason: err.Error()}
	}
	if err != nil {
		return r, fmt.Errorf("compensate: if it is unclear whether this succeeded, repeat it; no undo is requested twice: %w", err)
	}
	return r, nil
}

// compensation returns the events that undo the saga of a row.
func compensation(row store.Tracked, w CompensateRequest) (r CompensateReport, err error) {
	if row.Body == "" {
		return r, &NoMatchError{Reason: fmt.Sprintf("saga %.100q of flow %s: its row is deleted",
			w.Key, w.Flow)}
	}
	r.Compensation, err = flow.Compensate(row, time.Now(), w.Repeat)
	switch {
	case err != nil:
		return r, err
	case len(r.Refused) > 0:
		return r, &UsageError{Reason: fmt.Sprintf("saga %s of flow %s is not compensated: %s", w.Key,
			w.Flow, strings.Join(r.Refused, "; "))}
	case len(r.Events)+len(r.Before) == 0:
		return r,
			&NoMatchError{Reason: fmt.Sprintf(
				"saga %s of flow %s is %s: nothing that took effect is left to undo", w.Key, w.Flow, r.State)}
	}
	return r, nil
}

// rowOf returns the row of the saga that w selects.
func rowOf(ctx context.Context, db store.Lister, w CompensateRequest) (none store.Tracked, err error) {
	rows, err := store.ListTracked(ctx, db, store.TrackedQuery{Key: w.Key, Flow: w.Flow})
	switch {
	case w.Key == "":
		return none, &UsageError{Reason: "which saga? Give its key"}
	case err != nil:
		return none, err
	case len(rows) == 0 && w.Flow != "":
		return none, ofAnotherFlow(ctx, db, w)
	case len(rows) == 0:
		return none, &NoMatchError{Reason: fmt.Sprintf("no tracker of this database has an event of saga %.100q",
			w.Key)}
	case len(rows) > 1:
		return none,
			&UsageError{Reason: fmt.Sprintf(
				"sagas of %d flows have the key %.100q, %s and %s among them: name the flow", len(rows),
				w.Key, rows[0].Flow, rows[1].Flow)}
	}
	return rows[0], nil
}

// ofAnotherFlow returns a *NoMatchError that names the flows with this key.
func ofAnotherFlow(ctx context.Context, db store.Lister, w CompensateRequest) error {
	rows, err := store.ListTracked(ctx, db, store.TrackedQuery{Key: w.Key})
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return &NoMatchError{Reason: fmt.Sprintf(
			"no tracker of this database has an event of saga %.100q, of flow %s or another",
			w.Key, w.Flow)}
	}
	flows := make([]string, len(rows))
	for i := range rows {
		flows[i] = rows[i].Flow
	}
	return &NoMatchError{Reason: fmt.Sprintf(
		"there is no saga %.100q of the flow %s in this database; there is one of: %s", w.Key, w.Flow,
		strings.Join(flows, ", "))}
}

func stepsOf(c *flow.Compensation) string {
	all := make([]string, len(c.Steps))
	for i, n := range c.Steps {
		all[i] = n.Type
	}
	return strings.Join(all, ", ")
}
