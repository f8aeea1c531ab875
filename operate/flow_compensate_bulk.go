package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/skald-go/skald/store"
)

// FlowSelection selects choreographed sagas. Zero fields select all.
type FlowSelection struct {
	Flow    string `json:"flow,omitempty"`
	State   string `json:"state,omitempty"`   // running, compensating, done, compensated
	Overdue bool   `json:"overdue,omitempty"` // only sagas that wait for an overdue event
}

// maxFlows limits the sagas that one call compensates.
const maxFlows = 10_000

// CompensateAll calls Compensate for each selected choreographed saga, each in its own transaction. A
// second call requests no undo twice. The report lists the sagas that were left unchanged, for example
// because their steps are already undone. The report is also valid if the error is a *PartialError.
func CompensateAll[TTx any](ctx context.Context, db CompensateStore[TTx], s FlowSelection,
	o Order) (r SagaReport, err error) {
	if err := checkOrder(&o); err != nil {
		return r, err
	}
	if s == (FlowSelection{}) && !o.DryRun {
		return r, &UsageError{Reason: "which sagas? Name a flow or a state, or select overdue sagas"}
	}
	if s.State != "" && !slices.Contains(SagaStatuses(), s.State) { // trackers use the same words
		return r, &UsageError{Reason: fmt.Sprintf("a saga's state is one of %s, not %q",
			strings.Join(SagaStatuses(), ", "), s.State)}
	}
	rows, err := store.ListTracked(ctx, db,
		store.TrackedQuery{Flow: s.Flow, State: s.State, Overdue: s.Overdue, Limit: maxFlows + 1})
	switch {
	case err != nil:
		return r, err
	case len(rows) == 0:
		return r, &NoMatchError{Reason: "no saga is selected"}
	case len(rows) > maxFlows:
		return r, &UsageError{Reason: fmt.Sprintf("more than %d sagas are selected: narrow the filter",
			maxFlows)}
	}
	if err := confirm(ctx, &o, len(rows)); err != nil {
		return r, err
	}
	one := o
	one.Confirm, one.Progress = nil, nil
	r.Selected = len(rows)
	for i := range rows {
		_, err := Compensate(ctx, db, CompensateRequest{Key: rows[i].Key, Flow: rows[i].Flow}, one)
		usage, none := new(UsageError), new(NoMatchError)
		switch {
		case errors.As(err, &usage), errors.As(err, &none):
			r.Left = append(r.Left, LeftSaga{Name: rows[i].Flow, Key: rows[i].Key, Why: err.Error()})
		case errors.Is(err, store.ErrBusy):
			r.Left = append(r.Left, LeftSaga{Name: rows[i].Flow, Key: rows[i].Key, Unneeded: true,
				Why: "its tracker or another transaction locks its row: repeat the command later"})
		case err != nil:
			return r, fmt.Errorf("after %d others: %w", r.Done, err)
		default:
			r.Done++
		}
		progress(&o, i+1, len(rows))
	}
	if r.Done < r.Selected {
		return r, &PartialError{Reason: fmt.Sprintf("compensate: %d of %d sagas were left unchanged",
			r.Selected-r.Done, r.Selected)}
	}
	return r, nil
}
