package plan

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"
)

// Begin returns the state of a saga that begins at the time of the argument now, and its first actions.
func (p *Plan) Begin(id string, now time.Time) (State, []Action) {
	w := work{p: p, s: State{ID: id, Status: Running}, now: now}
	if d := p.Graph.Deadline; d > 0 {
		w.s.Deadline = now.Add(d)
	}
	w.proceed()
	w.date()
	return w.s, append(p.Pending(w.s), w.notices...)
}

// Advance returns the state after e. The actions are the new ones: those that follow from the new state but
// not from s. They are in the order of the runs, and alarms and Finish come last.
func (p *Plan) Advance(s State, e Event, now time.Time) (State, []Action, Outcome) {
	next, actions, outs := p.AdvanceAll(s, []Event{e}, now)
	return next, actions, outs[0]
}

// AdvanceAll is like Advance, for several events in order. It returns an outcome for each event. A batch of
// replies to a step with many occurrences costs less this way. The actions are those of the final state, so
// actions that a later event completes are omitted.
func (p *Plan) AdvanceAll(s State, es []Event, now time.Time) (State, []Action, []Outcome) {
	c, outs := p.Course(s, now), make([]Outcome, len(es))
	for i, e := range es {
		outs[i] = c.Take(e)
	}
	if !c.changed {
		return s, nil, outs
	}
	return c.w.s, append(newActions(s, c.w.s), c.w.notices...), outs
}

// Course applies events one by one, as AdvanceAll does. Use it if an event depends on the outcome of an
// earlier one.
type Course struct {
	w       work
	changed bool
	most    int // upper bound of the state's size without further data; 0 if unknown
	refused int // the size that the state would have had after a refused event
}

// Course returns a course that begins at s.
func (p *Plan) Course(s State, now time.Time) *Course {
	c := &Course{w: work{p: p, s: s, now: now}}
	c.w.s.Runs = slices.Clone(s.Runs)
	for i := range c.w.s.Runs {
		c.w.s.Runs[i].dated = c.w.s.Runs[i].Phase
	}
	return c
}

// Take applies the next event.
func (c *Course) Take(e Event) Outcome {
	e.Reason = cut(e.Reason)
	if n := c.w.brings(e); n > 0 && !c.reserve(n) {
		return c.takeData(e)
	}
	return c.takeAny(e)
}

func (c *Course) takeAny(e Event) Outcome {
	out := c.w.take(e)
	if out.Changed() {
		c.changed = true
		c.w.proceed()
		c.w.date()
	}
	return out
}

// State returns the saga's state after the events so far. The next event changes the runs in it.
func (c *Course) State() State { return c.w.s }

// Told returns the alarms of the events so far, and Finish.
func (c *Course) Told() []Action { return c.w.notices }

// Pending returns the actions that are to be performed in state s, except Finish and alarms. It omits runs
// that wait for a time until a Tick at that time.
func (p *Plan) Pending(s State) (out []Action) {
	for i := range s.Runs {
		if a := pendingAction(&s, i); a.Verb != "" {
			out = append(out, a)
		}
	}
	return out
}

// pendingAction returns the pending action of the run with index i. Its Verb is "" if the run has no
// pending action.
func pendingAction(s *State, i int) (a Action) {
	r := &s.Runs[i]
	if s.Paused || s.Status.Final() || r.Stuck || !r.Due.IsZero() {
		return a
	}
	switch r.Phase {
	case Deciding:
		a.Verb = DecideStep
	case Ready:
		a.Verb = RunStep
		if s.Status == Compensating {
			a.Verb = SettleStep
		}
	case Undo:
		a.Verb = UndoStep
	default:
		return a
	}
	a.Step, a.Occurrence, a.Attempt, a.Sent, a.Sends, a.Crashes = r.Step, r.Occurrence, r.Attempts+1, r.Sent,
		r.Sends, r.Crashes
	return a
}

// newActions returns the actions that are pending in the state after but not in the state before.
// Occurrences replace the run that was being decided; all other runs keep their order.
func newActions(before, after State) (out []Action) {
	j := 0
	for i := range after.Runs {
		r := &after.Runs[i]
		for j < len(before.Runs) && before.Runs[j].Phase == Deciding && before.Runs[j].Step != r.Step {
			j++ // the run was decided: its occurrences have replaced it
		}
		same := j < len(before.Runs) && before.Runs[j].Step == r.Step &&
			before.Runs[j].Occurrence == r.Occurrence
		a := pendingAction(&after, i)
		if a.Verb != "" && (!same || pendingAction(&before, j) != a) {
			out = append(out, a)
		}
		if same {
			j++
		}
	}
	return out
}

// work is the state during one Advance.
type work struct {
	p       *Plan
	s       State
	now     time.Time
	notices []Action // alarms and Finish
}

func (w *work) alarm(r *Run, reason string) {
	a := Action{Verb: Alarm, Reason: reason}
	if r != nil {
		a.Step, a.Occurrence = r.Step, r.Occurrence
	}
	w.notices = append(w.notices, a)
}

func (w *work) step(r *Run) *Step { return &w.p.Graph.Steps[w.p.index[r.Step]] }

// passed returns two values for each step: whether all its runs are done or skipped, and whether it has runs.
func (w *work) passed() (passed, begun []bool) {
	all := make([]bool, 2*len(w.p.Graph.Steps))
	passed, begun = all[:len(all)/2], all[len(all)/2:]
	step, at, known := "", 0, false
	for i := range w.s.Runs {
		r := &w.s.Runs[i]
		if r.Step != step || i == 0 {
			step = r.Step
			at, known = w.p.index[step]
		}
		if !known {
			continue
		}
		is := r.Phase == IsDone || r.Phase == Skipped
		passed[at] = is && (passed[at] || !begun[at])
		begun[at] = true
	}
	return passed, begun
}

// pastPivot reports whether the pivot is done, so that nothing may be undone.
func (w *work) pastPivot() bool {
	if w.p.pivot < 0 {
		return false
	}
	passed, _ := w.passed()
	return passed[w.p.pivot]
}

// Final reports whether the pivot of s is done, so that nothing of s may be undone.
func (p *Plan) Final(s State) bool {
	w := work{p: p, s: s}
	return w.pastPivot()
}

// proceed begins the next steps, or the next undo, or finishes the saga.
func (w *work) proceed() {
	switch w.s.Status {
	case Running:
		w.forward()
	case Compensating:
		w.undoNext()
	}
}

// date records the time at which a run came to its new phase.
func (w *work) date() {
	for i := range w.s.Runs {
		if r := &w.s.Runs[i]; r.dated != r.Phase {
			r.At, r.dated = w.now.UTC().Truncate(time.Millisecond), r.Phase
		}
	}
}

// forward begins each step that waits only for done or skipped steps.
func (w *work) forward() {
	for {
		passed, begun := w.passed()
		moved := false
		for i := range w.p.Graph.Steps {
			if begun[i] || slices.ContainsFunc(w.p.after[i], func(at int) bool { return !passed[at] }) {
				continue
			}
			step := &w.p.Graph.Steps[i]
			r := Run{Step: step.Name, As: born(w.s.Runs, step.Name), Phase: Deciding}
			if !step.When && !step.Each {
				w.enter(&r, step)
			}
			w.s.Runs = append(w.s.Runs, r)
			moved = true
		}
		if !moved {
			if !slices.Contains(passed, false) {
				w.finish(Done)
			}
			return
		}
	}
}

func (w *work) finish(as Status) {
	w.s.Status, w.s.Deadline, w.s.Early = as, time.Time{}, nil
	w.notices = append(w.notices, Action{Verb: Finish, Reason: string(as)})
}

// enter makes a run ready. A Wait for a signal starts to wait, or is done if the signal is stored already.
func (w *work) enter(r *Run, step *Step) {
	r.Phase, r.Attempts, r.Free, r.Error = Ready, 0, Free{}, ""
	if step.Kind != Wait || step.Signal == "" {
		w.stickEnded(r, false)
		return
	}
	for i, early := range w.s.Early {
		if early.Name == step.Signal && early.Occurrence == r.Occurrence {
			r.Phase, r.Output = IsDone, early.Data
			w.s.Early = slices.Delete(slices.Clone(w.s.Early), i, i+1)
			return
		}
	}
	r.Phase, r.Due = Waiting, w.timeout(step.Try)
}

// timeout returns the end of an attempt that begins now, or zero if the policy has no timeout.
func (w *work) timeout(by Policy) time.Time {
	if by.Timeout <= 0 {
		return time.Time{}
	}
	return w.now.Add(min(by.Timeout, MaxWait))
}

// wait returns the wait before the next attempt. Jitter keeps runs that failed together from retrying
// together. It is derived from the run and the number of its failures. So the wait is the same if a crash
// makes an engine compute it again.
func (w *work) wait(r *Run, by Policy) time.Duration {
	d, failed := max(by.InitialInterval, time.Millisecond), r.Attempts+r.Free.Times
	for i := 1; i < failed && d < by.MaxInterval; i++ {
		d *= 2
	}
	d = min(d, max(by.MaxInterval, time.Millisecond))
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, w.s.ID, "\x00", r.Step, "\x00", r.Occurrence, "\x00", r.Phase, failed)
	return d + time.Duration(h.Sum64()%uint64(d/2+1))
}

// cut limits s to MaxError bytes, and removes bytes that a database cannot store.
func cut(s string) string {
	s = strings.ReplaceAll(s, "\x00", "")
	if len(s) > MaxError {
		s = s[:MaxError]
	}
	return strings.ToValidUTF8(s, "")
}
