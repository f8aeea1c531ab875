package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/skald-go/skald/store"
)

// A FlowSelection chooses among choreographed sagas. Zero fields choose all.
type FlowSelection struct {
	Flow    string `json:"flow,omitempty"`
	State   string `json:"state,omitempty"`   // running, compensating, done, compensated
	Overdue bool   `json:"overdue,omitempty"` // what they wait for is due
}

// mostFlows bounds how many sagas are compensated at once.
const mostFlows = 10_000

// CompensateAll has each selected choreographed saga undone, as Compensate does it, each in a transaction of
// its own. A repeat asks for nothing twice. Left are those of which nothing is left to undo, and those whose
// flow says that they cannot be undone. With a *PartlyError the report is valid, too.
func CompensateAll[TTx any](ctx context.Context, db Compensator[TTx], s FlowSelection,
	o Order) (r SagaReport, err error) {
	if err := checkOrder(&o); err != nil {
		return r, err
	}
	if s == (FlowSelection{}) && !o.DryRun {
		return r, &UsageError{What: "which sagas? Name a flow or a state, or say overdue"}
	}
	if s.State != "" && !slices.Contains(SagaStatuses(), s.State) { // trackers have the same words
		return r, &UsageError{What: fmt.Sprintf("a saga's state is one of %s, not %q",
			strings.Join(SagaStatuses(), ", "), s.State)}
	}
	rows, err := store.ListTracked(ctx, db,
		store.TrackedQuery{Flow: s.Flow, State: s.State, Overdue: s.Overdue, Limit: mostFlows + 1})
	switch {
	case err != nil:
		return r, err
	case len(rows) == 0:
		return r, &NoneError{What: "no saga is selected"}
	case len(rows) > mostFlows:
		return r, &UsageError{What: fmt.Sprintf("more than %d sagas are selected: narrow the filter",
			mostFlows)}
	}
	if err := confirm(ctx, &o, len(rows)); err != nil {
		return r, err
	}
	one := o
	one.Confirm, one.Progress = nil, nil
	r.Selected = len(rows)
	for i := range rows {
		_, err := Compensate(ctx, db, Wish{Key: rows[i].Key, Flow: rows[i].Flow}, one)
		usage, none := new(UsageError), new(NoneError)
		switch {
		case errors.As(err, &usage), errors.As(err, &none):
			r.Left = append(r.Left, LeftSaga{Name: rows[i].Flow, Key: rows[i].Key, Why: err.Error()})
		case errors.Is(err, store.ErrBusy):
			r.Left = append(r.Left, LeftSaga{Name: rows[i].Flow, Key: rows[i].Key, First: true,
				Why: "its tracker, or another transaction, holds its row: type the verb again when that is over"})
		case err != nil:
			return r, fmt.Errorf("after %d others: %w", r.Done, err)
		default:
			r.Done++
		}
		progress(&o, i+1, len(rows))
	}
	if r.Done < r.Selected {
		return r, &PartlyError{What: fmt.Sprintf("compensate: %d of %d sagas were left as they are",
			r.Selected-r.Done, r.Selected)}
	}
	return r, nil
}
