package operate

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// sagaRun is the prefix of Run.Verb for a run on orchestrated sagas.
const sagaRun = "saga "

// SagaVerbOf returns the verb of a run on orchestrated sagas, or "" for another run.
func (r *Run) SagaVerbOf() SagaVerb {
	if r.Request.Sagas == nil || r.Request.Change == nil {
		return ""
	}
	return r.Request.Change.Verb
}

// NewSagaRun returns a run on orchestrated sagas for BeginRun. The argument selected is the number of
// selected sagas. If s.StartedBefore is zero, NewSagaRun sets it to the current time, by the clock of this
// machine, so that the run omits sagas that start later.
func NewSagaRun(id string, s SagaSelection, c SagaChange, selected int, o Order) Run {
	now := time.Now().UTC()
	if s.StartedBefore.IsZero() {
		s.StartedBefore = now
	}
	return Run{ID: id, Verb: sagaRun + string(c.Verb), Author: o.Author, Reason: o.Reason, Begun: now,
		Request: RunRequest{Of: selected, Sagas: &s, Change: &c}}
}

// RunSagas calls ChangeSagas, and records the call as a run: its request, each change and the outcome. The ID
// of the run is name. If this run was interrupted, RunSagas continues it, and changes no saga twice. If this
// run has ended, RunSagas begins another run with the ID name-2, and so on.
func RunSagas(ctx context.Context, db SagaStore, name string, s SagaSelection, c SagaChange,
	o Order) (r SagaReport, err error) {
	if err := errors.Join(checkChange(&c), checkOrder(&o)); err != nil {
		return r, err
	}
	switch {
	case o.DryRun:
		o.Run = name // with a run, ChangeSagas accepts a key that sagas of several definitions have
		return ChangeSagas(ctx, db, s, c, o)
	case !s.All && !s.Filtered(): // checked before NewSagaRun sets StartedBefore, which counts as a filter
		return r, whichSagas()
	}
	return continueRun(ctx, db, name, NewSagaRun("", s, c, 0, o), o,
		func(ctx context.Context, run *Run, o Order) (SagaReport, error) {
			return ChangeSagas(ctx, db, *run.Request.Sagas, *run.Request.Change, o)
		})
}

// FlowStore is the part of a store that RunFlows needs.
type FlowStore[TTx any] interface {
	CompensateStore[TTx]
	runKeeper
}

// RunFlows calls CompensateAll, and records the call as a run: see RunSagas.
func RunFlows[TTx any](ctx context.Context, db FlowStore[TTx], name string, s FlowSelection,
	o Order) (r SagaReport, err error) {
	if err := checkOrder(&o); err != nil {
		return r, err
	}
	if o.DryRun {
		return CompensateAll(ctx, db, s, o)
	}
	fresh := Run{Verb: "compensate", Author: o.Author, Reason: o.Reason, Request: RunRequest{Flows: &s}}
	return continueRun(ctx, db, name, fresh, o,
		func(ctx context.Context, run *Run, o Order) (SagaReport, error) {
			return CompensateAll(ctx, db, *run.Request.Flows, o)
		})
}

type runKeeper interface {
	Applier
	RunReader
}

// continueRun calls work for the first run of a name that has not ended. If there is no such run, it begins
// the run fresh.
func continueRun(ctx context.Context, db runKeeper, name string, fresh Run, o Order,
	work func(context.Context, *Run, Order) (SagaReport, error)) (r SagaReport, err error) {
	run, begun, err := openRun(ctx, db, name)
	switch {
	case err != nil:
		return r, err
	case begun && run.Verb != fresh.Verb:
		return r, &UsageError{Reason: fmt.Sprintf("the run %s is of another verb: %s", run.ID, run.Verb)}
	case !begun:
		fresh.ID = run.ID
		run = fresh
	}
	var refused error
	confirm := o.Confirm
	o.Run = run.ID
	o.Confirm = func(ctx context.Context, n int) error {
		if confirm != nil {
			if err := confirm(ctx, n); err != nil {
				refused = err
				return err
			}
		}
		if begun {
			return nil
		}
		run.Request.Of = n
		refused = BeginRun(ctx, db, run)
		begun = refused == nil
		return refused
	}
	r, err = work(ctx, &run, o)
	r.Run = run.ID
	if !begun || refused != nil { // nothing was selected, or Confirm returned an error
		return r, err
	}
	return r, errors.Join(err, endSagas(ctx, db, &run, err))
}

// openRun returns the first run of a name that has not ended. The result exists reports whether this run is
// recorded. If it is not recorded, r has only the ID.
func openRun(ctx context.Context, db RunReader, name string) (r Run, exists bool, err error) {
	const most = 1000
	for n := 1; n <= most; n++ {
		id := name
		if n > 1 {
			id = fmt.Sprintf("%s-%d", name, n)
		}
		r, err := ReadRun(ctx, db, id)
		if none := new(NoMatchError); errors.As(err, &none) {
			return Run{ID: id}, false, nil
		}
		if err != nil || r.Ended == "" {
			return r, true, err
		}
	}
	return r, false, &UsageError{Reason: fmt.Sprintf("%d runs have the name %s: give another reason",
		most, name)}
}

// noteWithin limits the time to record the end of a run or the error of an order, even if ctx has ended.
const noteWithin = 10 * time.Second

// endSagas records the end or the interruption of a run. If several processes continued the run, the first
// process that ends records the end. Two processes that end at the same time both record the end, with the
// same text.
func endSagas(ctx context.Context, db runKeeper, run *Run, err error) error {
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), noteWithin)
	defer stop()
	partly, none := new(PartialError), new(NoMatchError)
	switch {
	case err == nil, errors.As(err, &partly), errors.As(err, &none):
		now, err := ReadRun(last, db, run.ID)
		if err != nil || now.Ended != "" {
			return err
		}
		return EndRun(last, db, *run, outcomeOf(now.Done, run.Request.Of))
	case ctx.Err() != nil:
		return StopRun(last, db, *run, run.Author, "it was stopped by a signal, or its time was up")
	}
	return StopRun(last, db, *run, run.Author, firstLine(err.Error()))
}

// outcomeOf describes the outcome of a run. The arguments are the number of sagas done, and the number of
// selected sagas.
func outcomeOf(done, selected int) string {
	text := fmt.Sprintf("%d of %d sagas", done, selected)
	if done < selected {
		text += "; the others were left unchanged"
	}
	return text
}
