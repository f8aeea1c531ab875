package plan

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"
)

// Begin returns the state of a saga that begins now.
func (p *Plan) Begin(id string, now time.Time) (State, []Action) {
	w := work{p: p, s: State{ID: id, Status: Running}, now: now}
	if d := p.Graph.Deadline; d > 0 {
		w.s.Deadline = now.Add(d)
	}
	w.proceed()
	w.date()
	return w.s, append(p.Pending(w.s), w.told...)
}

// Advance returns what becomes of s by e. The actions are those that s did not ask for yet, in the order of
// the runs, then alarms and Finish.
func (p *Plan) Advance(s State, e Event, now time.Time) (State, []Action, Outcome) {
	next, actions, outs := p.AdvanceAll(s, []Event{e}, now)
	return next, actions, outs[0]
}

// AdvanceAll is Advance for events in their order, with an outcome each. A step with many occurrences takes
// many replies so for the price of a few. An action that a later one of the events has answered, or made
// pointless, is not among the actions.
func (p *Plan) AdvanceAll(s State, es []Event, now time.Time) (State, []Action, []Outcome) {
	c, outs := p.Course(s, now), make([]Outcome, len(es))
	for i, e := range es {
		outs[i] = c.Take(e)
	}
	if !c.changed {
		return s, nil, outs
	}
	return c.w.s, append(added(s, c.w.s), c.w.told...), outs
}

// A Course is AdvanceAll where what the next event is depends on what the one before it came to.
type Course struct {
	w       work
	changed bool
	most    int // how large the state may become without data, at most; 0: not looked at
	refused int // how large what was refused may have become
}

// Course begins one at s.
func (p *Plan) Course(s State, now time.Time) *Course {
	c := &Course{w: work{p: p, s: s, now: now}}
	c.w.s.Runs = slices.Clone(s.Runs)
	for i := range c.w.s.Runs {
		c.w.s.Runs[i].dated = c.w.s.Runs[i].Phase
	}
	return c
}

// Take takes the next event in.
func (c *Course) Take(e Event) Outcome {
	e.Reason = cut(e.Reason)
	if n := c.w.brings(e); n > 0 && !c.fits(n) {
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

// State is how far the saga has come. Its runs are the course's own until there is no further event.
func (c *Course) State() State { return c.w.s }

// Told are the alarms so far, and Finish.
func (c *Course) Told() []Action { return c.w.told }

// Pending returns all actions that s asks for, but Finish and alarms. Runs that wait for a time ask after the
// Tick of that time.
func (p *Plan) Pending(s State) (out []Action) {
	for i := range s.Runs {
		if a := asks(&s, i); a.Verb != "" {
			out = append(out, a)
		}
	}
	return out
}

// asks is the action that a run asks for; without a Verb, none.
func asks(s *State, i int) (a Action) {
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

// added returns the actions that after asks for and before did not. Runs keep their order; where a step was
// decided, its occurrences stand in the place of the run that was being decided.
func added(before, after State) (out []Action) {
	j := 0
	for i := range after.Runs {
		r := &after.Runs[i]
		for j < len(before.Runs) && before.Runs[j].Phase == Deciding && before.Runs[j].Step != r.Step {
			j++ // it was decided, and its occurrences are over
		}
		same := j < len(before.Runs) && before.Runs[j].Step == r.Step &&
			before.Runs[j].Occurrence == r.Occurrence
		a := asks(&after, i)
		if a.Verb != "" && (!same || asks(&before, j) != a) {
			out = append(out, a)
		}
		if same {
			j++
		}
	}
	return out
}

// work is one Advance.
type work struct {
	p    *Plan
	s    State
	now  time.Time
	told []Action // alarms and Finish
}

func (w *work) alarm(r *Run, reason string) {
	a := Action{Verb: Alarm, Reason: reason}
	if r != nil {
		a.Step, a.Occurrence = r.Step, r.Occurrence
	}
	w.told = append(w.told, a)
}

func (w *work) step(r *Run) *Step { return &w.p.Graph.Steps[w.p.index[r.Step]] }

// passed tells for each step whether all its runs are done or skipped; begun, whether it has any.
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

// pastPivot tells whether nothing may be undone any more.
func (w *work) pastPivot() bool {
	if w.p.pivot < 0 {
		return false
	}
	passed, _ := w.passed()
	return passed[w.p.pivot]
}

// Final tells whether nothing of s may be undone any more, since its pivot is passed.
func (p *Plan) Final(s State) bool {
	w := work{p: p, s: s}
	return w.pastPivot()
}

// proceed begins what can begin, undoes what is to be undone next, and finishes.
func (w *work) proceed() {
	switch w.s.Status {
	case Running:
		w.forward()
	case Compensating:
		w.back()
	}
}

// date notes when runs came to their phases.
func (w *work) date() {
	for i := range w.s.Runs {
		if r := &w.s.Runs[i]; r.dated != r.Phase {
			r.At, r.dated = w.now.UTC().Truncate(time.Millisecond), r.Phase
		}
	}
}

// forward begins each step whose predecessors are passed.
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
	w.told = append(w.told, Action{Verb: Finish, Reason: string(as)})
}

// enter puts a run to its work: a Wait for a signal needs none.
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

// timeout is when the time of an attempt is up that begins now. Zero: never.
func (w *work) timeout(by Policy) time.Time {
	if by.Timeout <= 0 {
		return time.Time{}
	}
	return w.now.Add(min(by.Timeout, MaxWait))
}

// wait is how long to wait after so many failures. Runs that failed together do not come back together, and
// the same failure of the same run always waits as long: a crash does not shorten it.
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

// cut is s as a database keeps it.
func cut(s string) string {
	s = strings.ReplaceAll(s, "\x00", "")
	if len(s) > MaxError {
		s = s[:MaxError]
	}
	return strings.ToValidUTF8(s, "")
}
