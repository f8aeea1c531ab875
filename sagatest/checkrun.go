package sagatest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/internal/saga/body"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

// A point is where something can go wrong.
type point struct {
	at    int
	what  string
	modes []Mode
	mode  Mode // that it had
}

// sagaRun is one run of a saga, by a schedule, in one thread. What it stores after a commit is what a process
// finds after a crash.
type sagaRun[TTx any] struct {
	c      *checker[TTx]
	d      *body.Definition // by which it runs now
	faults Schedule
	db     Beginner[TTx]
	key    string
	input  json.RawMessage
	state  plan.State
	now    time.Time

	log    []point
	turned bool  // it was on the way back
	mixed  bool  // it began by an older definition
	beside *bool // a rival ran within it, and is done
	own    map[string]int
	broken []string
}

const (
	mostMoves = 2000
	mostOwn   = 25 // errors of one function that nobody injected
)

func (r *sagaRun[TTx]) trace() string {
	var b strings.Builder
	for _, p := range r.log {
		fmt.Fprintf(&b, "%4d  %s", p.at, p.what)
		if p.mode != "" {
			fmt.Fprintf(&b, "    <- %s", p.mode)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// whole is the run from before the saga to after it.
func (r *sagaRun[TTx]) whole() (err error) {
	c := r.c
	if err := r.begin(); err != nil {
		return err
	}
	before, err := r.view()
	if err != nil {
		return err
	}
	if deployed(r.faults) && c.older != nil {
		r.d, r.mixed = c.older, true
	}
	if err := r.run(c.in, "00000000-0000-7000-8000-000000000001"); err != nil {
		return err
	}
	return r.judge(before)
}

// begin makes what has to be there before any saga.
func (r *sagaRun[TTx]) begin() (err error) {
	c := r.c
	r.own, r.now = map[string]int{}, time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	if r.db, err = c.fresh(c.ctx); err != nil {
		return fmt.Errorf("a fresh database: %w", err)
	}
	for _, o := range c.outside {
		if o.reset != nil {
			o.reset()
		}
	}
	return r.in(true, func(ctx context.Context, tx TTx) error {
		for _, g := range c.given {
			if err := g(ctx, tx); err != nil {
				return fmt.Errorf("given: %w", err)
			}
		}
		return nil
	})
}

func deployed(s Schedule) bool { return len(s) > 0 && s[0].Mode == Deploys }

// run takes a saga from its start to its end.
func (r *sagaRun[TTx]) run(in any, id string) (err error) {
	if r.key, r.input, err = r.d.Encode(in); err != nil {
		return err
	}
	r.state, _ = r.d.Plan.Begin(id, r.now)
	for n := 0; !r.state.Status.Final(); n++ {
		if n > mostMoves {
			return fmt.Errorf("it does not end: after %d moves it is %s", n, r.state.Status)
		}
		if err := r.deploy(); err != nil {
			return err
		}
		if err := r.move(); err != nil {
			return err
		}
	}
	return nil
}

// judge asks the promises.
func (r *sagaRun[TTx]) judge(before string) error {
	after, err := r.view()
	if err != nil {
		return err
	}
	end := End{Done: r.state.Status == plan.Done, Key: r.key, state: &r.state}
	if r.state.Cause != nil {
		end.Why, end.Step = string(r.state.Cause.Why), r.state.Cause.Step
	}
	switch {
	case len(r.faults) == 0 && !end.Done:
		return fmt.Errorf("nothing goes wrong, and it turns back at %q: %s: %s", end.Step, end.Why,
			r.state.Cause.Reason)
	case len(r.faults) == 0:
		r.c.usual = after
	case r.beside != nil:
		if views := r.c.serial[[2]bool{end.Done, *r.beside}]; !slices.Contains(views, after) {
			r.broken = append(r.broken,
				fmt.Sprintf("it ran beside a rival (it is done: %v; the rival is done: %v), and they left\n%swhere one after the other "+
					"they leave\n%s", end.Done, *r.beside, indent(after),
					indent(strings.Join(views, "or\n"))))
		}
	case end.Done && r.mixed: // what it should leave, promises tell
	case end.Done && after != r.c.usual:
		r.broken = append(r.broken, "it is done, and left\n"+indent(after)+
			"where it leaves, if nothing goes wrong,\n"+indent(r.c.usual))
	case !end.Done && after != before:
		r.broken = append(r.broken, "it is compensated, and left\n"+indent(after)+
			"where there was before it\n"+indent(before))
	}
	return r.in(false, func(ctx context.Context, tx TTx) error {
		for _, p := range r.c.promises {
			if err := p(ctx, tx, end); err != nil {
				r.broken = append(r.broken, "a promise is broken: "+err.Error())
			}
		}
		return nil
	})
}

func indent(s string) string {
	if s == "" {
		return "    nothing\n"
	}
	return "    " + strings.ReplaceAll(strings.TrimSuffix(s, "\n"), "\n", "\n    ") + "\n"
}

func (r *sagaRun[TTx]) view() (string, error) {
	var out strings.Builder
	err := r.in(false, func(ctx context.Context, tx TTx) error {
		for _, v := range r.c.views {
			text, err := v(ctx, tx)
			if err != nil {
				return fmt.Errorf("view: %w", err)
			}
			out.WriteString(text)
		}
		return nil
	})
	for _, o := range r.c.outside {
		if o.view != nil {
			out.WriteString(o.view())
		}
	}
	return out.String(), err
}

// in runs f in a transaction, which is committed where it is told and f does not fail.
func (r *sagaRun[TTx]) in(commit bool, f func(ctx context.Context, tx TTx) error) error {
	u, err := r.db.Begin(r.c.ctx, store.Intake{})
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	err = f(r.c.ctx, u.Tx())
	if err == nil && commit {
		return u.Commit(r.c.ctx)
	}
	if _, lost := u.Rollback(r.c.ctx); err == nil {
		err = lost
	}
	return err
}

// point notes that something can go wrong here, and tells what does. Where the saga is cancelled, or its
// deadline passes, before the function, it has happened, and gone is true.
func (r *sagaRun[TTx]) point(what string, modes ...Mode) (mode Mode, gone bool) {
	if r.state.Status == plan.Running {
		modes = append(modes, Cancels)
		if !r.state.Deadline.IsZero() {
			modes = append(modes, Deadline)
		}
	}
	if r.c.rival != nil && !r.mixed && r.beside == nil {
		modes = append(modes, Beside)
	}
	p := point{at: len(r.log) + 1, what: what, modes: modes}
	for _, f := range r.faults {
		if f.At == p.at && slices.Contains(modes, f.Mode) && p.mode == "" {
			p.mode = f.Mode
		}
	}
	r.log = append(r.log, p)
	switch p.mode {
	case Cancels:
		r.feed(plan.Event{What: plan.Cancel})
		return "", true
	case Deadline:
		r.now = r.state.Deadline
		r.feed(plan.Event{What: plan.Tick})
		return "", true
	case Beside:
		r.rival()
		return "", false
	}
	return p.mode, false
}

func (r *sagaRun[TTx]) feed(e plan.Event) {
	s, _, out := r.d.Plan.Advance(r.state, e, r.now)
	if out.Changed() {
		r.state = s
	}
	r.turned = r.turned || r.state.Status == plan.Compensating || r.state.Status == plan.Compensated
}

// move carries out the next action, or has somebody outside answer, or lets time pass.
func (r *sagaRun[TTx]) move() error {
	if todo := r.d.Plan.Pending(r.state); len(todo) > 0 {
		return r.act(todo[0])
	}
	if r.state.Stuck() { // an operator looked, and what was wrong is gone
		r.feed(plan.Event{What: plan.Retry})
		return nil
	}
	for _, run := range r.state.Runs {
		if run.Phase == plan.Waiting || run.Phase == plan.Undoing {
			if r.answer(run) {
				return nil
			}
		}
	}
	next := r.state.Next()
	if next.IsZero() {
		return fmt.Errorf("nothing will ever move it: it is %s", r.state.Status)
	}
	if next.After(r.now) {
		r.now = next
	}
	r.feed(plan.Event{What: plan.Tick})
	return nil
}

// answer plays a participant, a child or whoever sends a signal.
func (r *sagaRun[TTx]) answer(run plan.Run) bool {
	step, _ := r.d.Plan.Step(run.Step)
	e := plan.Event{Step: run.Step, Occurrence: run.Occurrence, Output: json.RawMessage("null"),
		Sends: run.Sends}
	switch {
	case run.Phase == plan.Undoing:
		e.What = plan.UndoDone
	case step.Kind == plan.Wait && step.Signal == "":
		return false
	case step.Kind == plan.Wait:
		if _, gone := r.point("signal " + step.Signal); !gone {
			r.feed(plan.Event{What: plan.Signal, Name: step.Signal, Occurrence: run.Occurrence,
				Output: e.Output})
		}
		return true
	default:
		mode, gone := r.point("reply to "+name(run.Step, run.Occurrence), r.mayReject(Rejects)...)
		if gone {
			return true
		}
		if e.What = plan.Succeeded; mode == Rejects || r.state.Status == plan.Compensating &&
			step.Kind == plan.Child {
			e.What, e.Reason = plan.Rejected, "injected"
		}
	}
	r.feed(e)
	return true
}

// mayReject leaves out what a step after the pivot does not do.
func (r *sagaRun[TTx]) mayReject(modes ...Mode) []Mode {
	if r.state.Status == plan.Running && r.pivotPassed() {
		return slices.DeleteFunc(modes, func(m Mode) bool { return m == Rejects || m == GivesUp })
	}
	return modes
}

func (r *sagaRun[TTx]) pivotPassed() bool {
	for _, s := range r.d.Plan.Graph.Steps {
		if run, ok := r.state.Run(s.Name, ""); ok && s.Pivot {
			return run.Phase == plan.IsDone || run.Phase == plan.Skipped
		}
	}
	return false
}

func name(step, occurrence string) string {
	if occurrence == "" {
		return step
	}
	return step + "/" + occurrence
}

// facts are those of an action, of a process that has just read the saga.
func (r *sagaRun[TTx]) facts(a plan.Action) *body.Facts {
	s := r.state
	return &body.Facts{Definition: r.d, Key: r.key, Input: &body.Input{Data: r.input}, State: &s,
		Step: a.Step, Occurrence: a.Occurrence,
		Undo: a.Verb == plan.UndoStep, Attempt: a.Attempt}
}

// failed is the event of an error of a function's.
func (r *sagaRun[TTx]) failed(a plan.Action, err error) plan.Event {
	e := plan.Event{What: plan.Failed, Step: a.Step, Occurrence: a.Occurrence, Attempt: a.Attempt,
		Reason: err.Error()}
	if a.Verb == plan.UndoStep {
		e.What = plan.UndoFailed
	}
	var no *skald.RejectedError
	var never *skald.PermanentError
	var later *skald.LaterError
	switch {
	case errors.As(err, &no) && a.Verb == plan.RunStep:
		e.What = plan.Rejected
	case errors.As(err, &no), errors.As(err, &never):
		e.Permanent = true
	case errors.As(err, &later):
		e.Later = max(later.After, time.Millisecond)
	}
	return e
}

// wrong feeds an error that nobody injected. One function may fail so often, then the run is over.
func (r *sagaRun[TTx]) wrong(a plan.Action, err error) error {
	what := string(a.Verb) + " of " + name(a.Step, a.Occurrence)
	if r.own[what]++; r.own[what] > mostOwn {
		return fmt.Errorf("the %s fails each time: %w", what, err)
	}
	r.feed(r.failed(a, err))
	return nil
}

// safely calls f; a panic is an error.
func safely(f func() error) (err error) {
	defer failure.Recover(&err)
	return f()
}
