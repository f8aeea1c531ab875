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
	"github.com/skald-go/skald/internal/lending"
	"github.com/skald-go/skald/internal/saga/engine"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

// point is a place in a run where a fault is possible.
type point struct {
	at               int
	what             string
	modes            []Mode
	step, occurrence string
	left             bool   // the step has an attempt left if this one fails
	mode             Mode   // the injected fault, or ""
	note             string // an error that was not injected, or the consequence of a fault
	inLine           bool   // the saga waits for entities of a rival
}

// repeats reports whether p is like the previous point, so that the trace can omit p.
func (p point) repeats(previous point) bool {
	return p.mode == "" && previous.mode == "" && p.what == previous.what && p.note == previous.note
}

// sagaRun is one run of a saga with a schedule, in one thread. A crash loses none of its fields, because an
// engine would read them from the database.
type sagaRun[TTx any] struct {
	c      *checker[TTx]
	d      *engine.Definition // the current definition
	faults Schedule
	on     int // index of the database
	db     Beginner[TTx]
	key    string
	input  json.RawMessage
	state  plan.State
	now    time.Time

	log       []point
	turned    bool            // the saga has turned back
	mixed     bool            // the saga began with an older definition
	other     *sagaRun[TTx]   // a rival that began during the run
	rivalDone *bool           // whether the rival is done; nil until it has ended
	lines     lines           // queues of entities
	named     string          // entities of the saga's Lock, as text
	own       map[string]int  // by action: errors that were not injected
	met       map[source]bool // signals and replies for which the saga waited
	large     error           // the error of data that is too large for the state
	broken    []string

	emitted []skald.Message // written to an outbox by committed functions
}

const (
	mostMoves = 2000
	mostOwn   = 25 // errors of one function that were not injected
)

// trace returns a line for each point. Repetitions of a point have one line together.
func (r *sagaRun[TTx]) trace() string {
	var b strings.Builder
	for i, p := range r.log {
		if i > 0 && p.repeats(r.log[i-1]) {
			if i+1 == len(r.log) || !r.log[i+1].repeats(p) {
				fmt.Fprintf(&b, "%4d  the same\n", p.at)
			}
			continue
		}
		fmt.Fprintf(&b, "%4d  %s", p.at, p.what)
		if p.mode != "" {
			fmt.Fprintf(&b, "    <- %s", p.mode)
		}
		if p.note != "" {
			fmt.Fprintf(&b, "    : %.300s", p.note)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// runAndJudge runs the saga on a fresh database, and checks the result.
func (r *sagaRun[TTx]) runAndJudge() (err error) {
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
	r.continueRival(never)
	return r.judge(before)
}

// begin prepares the database and the clock.
func (r *sagaRun[TTx]) begin() (err error) {
	c := r.c
	r.own, r.met, r.now = map[string]int{}, map[source]bool{}, time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	r.lines = lines{}
	if r.db, err = c.fresh[r.on](c.ctx); err != nil {
		return fmt.Errorf("a fresh database: %w", err)
	}
	for _, o := range c.outside {
		if o.reset != nil {
			o.reset()
		}
	}
	err = r.inTx(true, func(ctx context.Context, tx TTx) error {
		for _, g := range c.given {
			if err := g(ctx, tx); err != nil {
				return fmt.Errorf("given: %w", err)
			}
		}
		return nil
	})
	r.emitted = nil // messages of Given do not belong to a saga
	return err
}

func deployed(s Schedule) bool { return len(s) > 0 && s[0].Mode == Deploys }

// run runs a saga from its start to its end.
func (r *sagaRun[TTx]) run(in any, id string) error {
	if err := r.start(in, id); err != nil {
		return err
	}
	return r.continueRun(never)
}

func (r *sagaRun[TTx]) start(in any, id string) (err error) {
	if r.key, r.input, err = r.d.Encode(in); err != nil {
		return err
	}
	r.state, _ = r.d.Plan.Begin(id, r.now)
	return nil
}

// continueRun runs a saga until it ends, or until the function stop returns true.
func (r *sagaRun[TTx]) continueRun(stop func() bool) error {
	for n := 0; !r.state.Status.Final(); n++ {
		if stop() {
			return nil
		}
		if n > mostMoves {
			return fmt.Errorf("it does not end: after %d moves it is %s", n, r.state.Status)
		}
		if err := r.deploy(); err != nil {
			return err
		}
		if err := errors.Join(r.move(), r.large); err != nil {
			return err
		}
	}
	r.leave()
	return nil
}

func (r *sagaRun[TTx]) view() (string, error) {
	var out strings.Builder
	err := r.inTx(false, func(ctx context.Context, tx TTx) error {
		for _, v := range r.c.views {
			text, err := v(ctx, tx)
			if err != nil {
				return fmt.Errorf("view: %w", err)
			}
			out.WriteString(lined(text))
		}
		return nil
	})
	for _, o := range r.c.outside {
		if o.view != nil {
			out.WriteString(lined(o.view()))
		}
	}
	return out.String(), err
}

// lined ends a text with a line break.
func lined(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}

// inTx calls f in a transaction. It commits the transaction if commit is true and f does not fail.
func (r *sagaRun[TTx]) inTx(commit bool, f func(ctx context.Context, tx TTx) error) error {
	u, err := r.db.Begin(r.c.ctx, store.Intake{})
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	var written []skald.Message
	err = f(lending.With(r.c.ctx, lending.Loan{
		Tx: u.Tx(), Consumer: "saga " + r.d.Name, ID: r.key,
		Record: func(ms []skald.Message) error {
			written = append(written, ms...)
			return nil
		},
	}), u.Tx())
	if err == nil && commit {
		if err = u.Commit(r.c.ctx); err == nil {
			r.emitted, err = joined(r.emitted, written)
		}
		return err
	}
	if _, lost := u.Rollback(r.c.ctx); err == nil {
		err = lost
	}
	return err
}

// point records a point, and returns the fault to inject. It returns ended=true if the saga was cancelled,
// or if its deadline passed, before the function.
func (r *sagaRun[TTx]) point(what string, of plan.Run, modes ...Mode) (mode Mode, ended bool) {
	if r.state.Status == plan.Running {
		modes = append(modes, Cancels)
		if !r.state.Deadline.IsZero() {
			modes = append(modes, Deadline)
		}
	}
	if r.c.rival != nil && !r.mixed && r.other == nil && r.faults.values() == nil {
		modes = append(modes, WithRival)
	}
	most := r.attempts(of.Step)
	p := point{at: len(r.log) + 1, what: what, modes: modes, step: of.Step,
		occurrence: of.Occurrence,
		left:       most == 0 || of.Attempts+1 < most}
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
	case WithRival:
		r.rival(of.Step)
		return "", false
	}
	return p.mode, false
}

// attempts returns the limit of a step's attempts in the current direction, or 0 if there is no limit.
func (r *sagaRun[TTx]) attempts(step string) int {
	node, _ := r.d.Plan.Step(step)
	if r.state.Status == plan.Running {
		return node.Try.Attempts
	}
	return node.Back.Attempts
}

func (r *sagaRun[TTx]) feed(e plan.Event) {
	s, _, out := r.d.Plan.Advance(r.state, e, r.now)
	if out.Changed() {
		r.state = s
	}
	if out == plan.TooLarge {
		r.large = r.d.Plan.Large(r.state, e, r.now)
	}
	r.turned = r.turned || r.state.Status == plan.Compensating || r.state.Status == plan.Compensated
}

// move performs the next action, plays an answer from outside, or moves the clock.
func (r *sagaRun[TTx]) move() error {
	if todo := r.d.Plan.Pending(r.state); len(todo) > 0 {
		return r.act(todo[0])
	}
	if r.state.Stuck() { // play an operator after the cause was removed
		if n := len(r.log); n > 0 && r.log[n-1].note == "" {
			r.addNote("it is stuck, and an operator retries it")
		}
		r.feed(plan.Event{What: plan.Retry})
		return nil
	}
	for _, run := range r.state.Runs {
		if run.Phase == plan.Waiting || run.Phase == plan.Undoing {
			if r.playOther(run) {
				return nil
			}
		}
	}
	if run, waits := r.waitingLock(); waits {
		return r.inLine(run)
	}
	next := r.state.Next()
	if next.IsZero() {
		return fmt.Errorf("it waits forever: it is %s", r.state.Status)
	}
	if next.After(r.now) {
		r.now = next
	}
	r.feed(plan.Event{What: plan.Tick})
	return nil
}

// mayReject removes the modes that are impossible after the pivot.
func (r *sagaRun[TTx]) mayReject(modes ...Mode) []Mode {
	if r.state.Status == plan.Running && r.pivotPassed() {
		return slices.DeleteFunc(modes, func(m Mode) bool { return m == Rejects || m == FailsPermanently })
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

// facts returns the facts for an action, as if the engine had just read the saga.
func (r *sagaRun[TTx]) facts(a plan.Action) *engine.Facts {
	s := r.state
	return &engine.Facts{Definition: r.d, Key: r.key, Input: r.input, State: &s,
		Step: a.Step, Occurrence: a.Occurrence,
		Undo: a.Verb == plan.UndoStep, Attempt: a.Attempt}
}

// failureEvent returns the event of a function's error.
func (r *sagaRun[TTx]) failureEvent(a plan.Action, err error) plan.Event {
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

// addNote adds a text to the last point.
func (r *sagaRun[TTx]) addNote(what string) {
	if n := len(r.log); n > 0 {
		r.log[n-1].note = what
	}
}

// feedError applies an error that was not injected to the saga. If one action fails too often, feedError
// returns an error that ends the run.
func (r *sagaRun[TTx]) feedError(a plan.Action, err error) error {
	r.addNote(err.Error())
	what := string(a.Verb) + " of " + name(a.Step, a.Occurrence)
	if r.own[what]++; r.own[what] > mostOwn {
		return fmt.Errorf("the %s fails each time: %w", what, err)
	}
	r.feed(r.failureEvent(a, err))
	return nil
}

// safely runs f, and converts a panic to an error.
func safely(f func() error) (err error) {
	defer failure.Recover(&err)
	if err = f(); err != nil {
		_ = err.Error() // a nil pointer that was returned as an error panics here
	}
	return err
}
