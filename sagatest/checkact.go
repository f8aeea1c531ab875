package sagatest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/skald-go/skald"
	calls "github.com/skald-go/skald/call"
	"github.com/skald-go/skald/internal/saga/engine"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
)

var errFault = errors.New("sagatest: injected")

// act performs an action, with the fault of the schedule if there is one.
func (r *sagaRun[TTx]) act(a plan.Action) error {
	step, _ := r.d.Step(a.Step)
	node, _ := r.d.Plan.Step(a.Step)
	if a.Verb == plan.DecideStep {
		return r.decide(a, step)
	}
	if tx, ok := step.Tx.(*engine.Local[TTx]); ok {
		return r.local(a, tx.Do, tx.Undo)
	}
	if tx, ok := engine.OutsideOf[TTx](step.Tx); ok {
		switch {
		case a.Verb != plan.UndoStep:
			return r.request(a, tx.Call)
		case tx.Undo != nil:
			return r.request(a, *tx.Undo)
		default:
			return r.local(a, nil, tx.Local)
		}
	}
	if step.Lock != nil {
		return r.lock(a, step)
	}
	e := plan.Event{What: plan.Sent, Step: a.Step, Occurrence: a.Occurrence}
	if a.Verb == plan.UndoStep {
		e.What = plan.UndoSent
	}
	if a.Verb == plan.SettleStep { // SettleStep turns a child back
		r.feed(e)
		return nil
	}
	what := fmt.Sprintf("%s %s of %s", a.Verb, node.Kind, name(a.Step, a.Occurrence))
	mode, gone := r.point(what, r.runOf(a), Fails, Dies)
	if gone {
		return nil
	}
	f := r.facts(a)
	err := safely(func() (err error) {
		switch {
		case step.Until != nil:
			e.Until, err = step.Until(f)
		case a.Verb == plan.UndoStep && step.Undo != nil:
			_, err = step.Undo.Draft(f)
		case step.Command != nil && a.Verb == plan.RunStep:
			_, err = step.Command.Draft(f)
		case step.Child != nil && a.Verb == plan.RunStep:
			var in any
			var own saga.ChildOutput
			if in, err = step.Child.Input(f); err == nil {
				own.Key, _, err = step.Child.Definition.Encode(in)
			}
			if err == nil {
				e.Memo, err = json.Marshal(own)
			}
		}
		return err
	})
	switch {
	case err != nil:
		return r.feedError(a, err)
	case mode == Fails:
		e = r.failureEvent(a, errFault)
	case mode == Dies:
		return nil
	}
	r.feed(e)
	return nil
}

// decide calls the functions that decide whether a step runs, and for which occurrences.
func (r *sagaRun[TTx]) decide(a plan.Action, step *engine.StepBody) error {
	e := plan.Event{What: plan.Decided, Step: a.Step}
	f := r.facts(a)
	err := safely(func() (err error) {
		if step.When != nil {
			is, err := step.When(f)
			if e.Skip = !is; err != nil || e.Skip {
				return err
			}
		}
		if step.Each != nil {
			e.Occurrences, err = step.Each(f)
		}
		return err
	})
	if err != nil {
		return r.feedError(a, err)
	}
	r.feed(e)
	return nil
}

// local runs a function in a transaction that also commits the saga's next state.
func (r *sagaRun[TTx]) local(a plan.Action,
	do func(context.Context, TTx, *engine.Facts) (json.RawMessage, error),
	undo func(context.Context, TTx, *engine.Facts, json.RawMessage) error) error {
	modes := r.mayReject(Fails, Dies, Rejects, FailsPermanently, CancelsDuring)
	if a.Verb == plan.UndoStep {
		modes = []Mode{Fails, Dies, FailsPermanently}
	}
	mode, gone := r.point(fmt.Sprintf("%s %s", a.Verb, name(a.Step, a.Occurrence)), r.runOf(a), modes...)
	if gone {
		return nil
	}
	f := r.facts(a)
	e := plan.Event{What: plan.Succeeded, Step: a.Step, Occurrence: a.Occurrence}
	own := r.inTx(mode == "", func(ctx context.Context, tx TTx) error {
		return safely(func() (err error) {
			if a.Verb == plan.UndoStep {
				e.What = plan.UndoDone
				return undo(ctx, tx, f, r.runOf(a).Output)
			}
			e.Output, err = do(ctx, tx, f)
			return err
		})
	})
	if own != nil {
		return r.feedError(a, own)
	}
	r.fault(a, mode, e)
	return nil
}

// fault passes the event e to the saga, or the injected fault instead.
func (r *sagaRun[TTx]) fault(a plan.Action, mode Mode, e plan.Event) {
	switch mode {
	case Fails:
		e = r.failureEvent(a, errFault)
	case FailsPermanently:
		e = r.failureEvent(a, skald.Permanent(errFault))
	case Rejects:
		e = r.failureEvent(a, skald.Reject(errFault))
	case CancelsDuring:
		e = plan.Event{What: plan.Cancel}
	case Dies, Lost:
		return
	}
	r.feed(e)
	r.noteStuck(a, mode)
}

// runOf returns the run of an action's step.
func (r *sagaRun[TTx]) runOf(a plan.Action) plan.Run {
	run, _ := r.state.Run(a.Step, a.Occurrence)
	return run
}

// request runs the Intent of a call, or sends its request and stores the answer.
func (r *sagaRun[TTx]) request(a plan.Action, req engine.Request[TTx]) error {
	f := r.facts(a)
	bound := req.Bind(calls.By{Name: r.d.Name, Retry: time.Millisecond,
		Now: func() time.Time { return r.now }, Logger: slog.New(slog.DiscardHandler)})
	if !a.Sent {
		return r.intend(a, f, bound)
	}
	run := r.runOf(a)
	var c store.Call
	if err := json.Unmarshal(run.Memo, &c); err != nil {
		return fmt.Errorf("the stored call of %s: %w", a.Step, err)
	}
	c.Undo = a.Verb == plan.SettleStep
	modes := r.mayReject(Lost, Dies, Rejects, CancelsDuring)
	if a.Verb != plan.RunStep {
		modes = []Mode{Lost, Dies}
	}
	mode, gone := r.point(fmt.Sprintf("%s request of %s", a.Verb, name(a.Step, a.Occurrence)), run, modes...)
	if gone {
		return nil
	}
	begun := a.Attempt > 1 || a.Verb == plan.SettleStep || r.requestSent(run)
	o := &requestOwner[TTx]{r: r, a: a, f: f, bound: bound, read: req.Read, mode: mode}
	if mode == Rejects && !begun {
		c.Outcome = `{"Refused":true,"Reason":"injected"}`
	} else if mode == Rejects { // the request was sent before, so only the provider can refuse it
		o.mode = ""
	}
	return calls.Make(r.c.ctx, bound, o, c, begun)
}

// requestSent reports whether a process that died has already sent the request.
func (r *sagaRun[TTx]) requestSent(run plan.Run) bool {
	what := fmt.Sprintf("request of %s", name(run.Step, run.Occurrence))
	n := 0
	for _, p := range r.log {
		if p.what == "run "+what || p.what == "settle "+what || p.what == "undo "+what {
			n++
		}
	}
	return n > 1
}

func (r *sagaRun[TTx]) intend(a plan.Action, f *engine.Facts, bound calls.Bound[TTx]) error {
	mode, gone := r.point(fmt.Sprintf("%s intent of %s", a.Verb, name(a.Step, a.Occurrence)), r.runOf(a),
		Fails, Dies)
	if gone {
		return nil
	}
	var memo json.RawMessage
	err := r.inTx(false, func(ctx context.Context, tx TTx) error {
		return safely(func() error {
			c, err := bound.Intend(engine.WithFacts(ctx, f), tx, skald.Message{})
			if err == nil {
				memo, err = json.Marshal(c)
			}
			return err
		})
	})
	if err != nil {
		return r.feedError(a, err)
	}
	e := plan.Event{What: plan.Sent, Step: a.Step, Occurrence: a.Occurrence, Memo: memo}
	if a.Verb == plan.UndoStep {
		e.What = plan.UndoSent
	}
	r.fault(a, mode, e)
	return nil
}

// requestOwner applies the outcome of a request to the saga.
type requestOwner[TTx any] struct {
	r     *sagaRun[TTx]
	a     plan.Action
	f     *engine.Facts
	bound calls.Bound[TTx]
	read  func(outcome string) (json.RawMessage, bool, string, error)
	mode  Mode
}

func (o *requestOwner[TTx]) Lease() calls.Lease {
	return calls.Lease{Since: o.r.now, For: 24 * time.Hour}
}

func (o *requestOwner[TTx]) GivesUp() bool { return false }

func (o *requestOwner[TTx]) Sending(ctx context.Context, _ time.Duration) (context.Context, func()) {
	return ctx, func() {}
}

func (o *requestOwner[TTx]) Answered(_ context.Context, c store.Call) error {
	r, a := o.r, o.a
	if o.mode == Lost {
		r.feed(r.failureEvent(a, errFault))
		r.noteStuck(a, Lost)
		return nil
	}
	output, refused, why, err := o.read(c.Outcome)
	if err != nil {
		return err
	}
	e := plan.Event{What: plan.Succeeded, Step: a.Step, Occurrence: a.Occurrence, Output: output}
	switch {
	case a.Verb == plan.UndoStep && refused:
		e.What, e.Permanent, e.Reason = plan.UndoFailed, true, why
	case a.Verb == plan.UndoStep:
		e.What = plan.UndoDone
	case refused:
		e.What, e.Reason = plan.Rejected, why
	default:
		if err := engine.CheckSize("the output of the step "+a.Step, output, r.d.MaxBytes); err != nil {
			r.addNote(err.Error())
			e.Output, e.Reason = nil, err.Error()
		}
	}
	commit := o.mode == "" || o.mode == Rejects
	err = r.inTx(commit, func(ctx context.Context, tx TTx) error {
		return safely(func() error {
			return o.bound.Settle(engine.WithFacts(ctx, o.f), tx, skald.Message{}, c.Outcome)
		})
	})
	var no *skald.RejectedError
	switch {
	case errors.As(err, &no) && refused:
	case errors.As(err, &no) && a.Verb != plan.UndoStep:
		e.Reason = no.Error() // the request was done, and Settle rejected the answer
	case err != nil:
		return r.feedError(a, err)
	}
	if o.mode == CancelsDuring {
		e = plan.Event{What: plan.Cancel}
	}
	if o.mode != Dies {
		r.feed(e)
	}
	return nil
}

func (o *requestOwner[TTx]) Later(_ context.Context, after time.Duration, err error) error {
	return o.r.feedError(o.a, skald.RetryAfter(after, err))
}

func (o *requestOwner[TTx]) Failed(_ context.Context, err error) error {
	return o.r.feedError(o.a, err)
}

func (o *requestOwner[TTx]) Late() error { return errors.New("the lease of the checked saga is over") }
