package operate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald/flow"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/internal/shortlog"
	"github.com/skald-go/skald/store"
)

// orchestrated are the sagas of engines that have a key, by name.
func orchestrated(ctx context.Context, db store.Lister, key, at string) ([]SagaStanding, error) {
	list, err := store.ListSagas(ctx, db, store.SagaQuery{Key: key})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	noted, err := db.List(ctx, store.List{Definitions: true})
	if err != nil {
		return nil, err
	}
	plans := plansOf(noted.Definitions)
	out := make([]SagaStanding, 0, len(list))
	for i := range list {
		p := plans[list[i].Hash]
		one, err := orchestratedOf(&list[i], p, at)
		if err != nil {
			return out, err
		}
		if why := noBuild(&list[i], noted.Definitions); why != "" {
			one.leave(why)
		}
		if err := one.inLine(ctx, db, &list[i], p); err != nil {
			return out, err
		}
		out = append(out, one)
	}
	return out, nil
}

// leave notes that no engine goes on with s: its steps are not at work.
func (s *SagaStanding) leave(why string) {
	s.Drift = append(s.Drift, why)
	for i := range s.Steps {
		if s.Steps[i].Outcome == StepRunning && !slices.ContainsFunc(s.Waiting, func(w Wait) bool {
			return w.After == s.Steps[i].Name
		}) {
			s.Steps[i].Outcome = StepNext
		}
	}
}

// inLine names the entities that a Lock of s waits for, and since when.
func (s *SagaStanding) inLine(ctx context.Context, db store.Lister, row *store.Saga, p *plan.Plan) error {
	i := slices.IndexFunc(s.Waiting, func(w Wait) bool { return w.What == WaitEntities })
	if i < 0 {
		return nil
	}
	places, err := holdsOf(ctx, db, row, p)
	for _, h := range places {
		w := &s.Waiting[i]
		if len(w.For) < mostEntities {
			w.For = append(w.For, entity(h))
		} else {
			w.More++
		}
		if w.Since == nil || h.Since.Before(*w.Since) { // that of its run is when it looked last
			w.Since = new(h.Since)
		}
	}
	return err
}

// orchestratedOf is how s stands. P is nil where no engine has noted its definition.
func orchestratedOf(s *store.Saga, p *plan.Plan, at string) (out SagaStanding, err error) {
	deadline := time.Duration(0)
	if p != nil {
		deadline = p.Graph.Deadline
	}
	st, err := sagarow.StateOf(*s, deadline)
	if err != nil {
		return out, err
	}
	final, left := st.Status.Final(), leftBy(s, at)
	out = SagaStanding{Style: Orchestrated, Name: s.Name, Key: s.Key, State: s.Status, Stuck: s.Stuck,
		Paused: s.Paused && !final, Overdue: st.Overdue,
		Forward: st.Status == plan.Running && p != nil && p.Final(st),
		Steps:   []StandingStep{}, Due: someTime(st.Deadline), Started: s.Started, Changed: s.Changed,
		Ended: someTime(s.Ended)}
	if st.Overdue && out.Due == nil && deadline > 0 { // the state lost it when it passed
		out.Due = new(s.Started.Add(deadline))
	}
	if st.Cause != nil {
		out.Why = causeText(st.Cause)
	}
	if origin, err := sagarow.OriginOf(*s); err == nil {
		out.Trace = flow.TraceOf(origin.Trace)
	}
	for i := range st.Runs {
		r := &st.Runs[i]
		step := standingStep(r)
		if step.Outcome == StepRunning && r.Phase != plan.Waiting && (left != "" || p == nil) {
			step.Outcome = StepNext
		}
		out.Steps = append(out.Steps, step)
		if w, waits := waitOf(p, r); waits && !final {
			out.Waiting = append(out.Waiting, w)
		}
	}
	switch {
	case left != "" && !s.Stuck: // its error and the times are of that
	case s.Failed > 0 || s.Stuck:
		out.Retrying = &Retrying{Step: s.Step, Attempt: s.Failed + 1, Error: s.Error,
			Since: someTime(s.Since), Next: someTime(s.Retry)}
	}
	if p != nil && !final {
		out.Undo, out.Stays = undos(p, &st)
		out.Remaining = remains(p, &st, out.Undo)
	}
	if left != "" {
		out.Drift = append(out.Drift, left)
	}
	if p == nil && !final {
		out.Drift = append(out.Drift, fmt.Sprintf(
			"no engine has noted its definition (%s), so none runs it: does a build run that knows it?",
			s.Hash))
	}
	out.Commands = frees(s, !final, at)
	return out, nil
}

// leftBy says since when and why a build has left s to another one, and what to do about it; "": none has.
func leftBy(s *store.Saga, at string) string {
	if !sagarow.WasLeft(s.Standing) || !s.Ended.IsZero() {
		return ""
	}
	if at != "" {
		at = " " + at
	}
	return fmt.Sprintf("since %s no build takes it on: one left it to another (%s). Start a build that can, "+
		"or give the next one a mapping; to compare: skald saga check%s --definitions '…'", timeText(s.Since),
		firstLine(strings.TrimPrefix(s.Error, sagarow.LeftToOthers)), at)
}

// UndoWord says what becomes of the steps in Undo.
func (s *SagaStanding) UndoWord() string {
	if s.State == string(plan.Compensating) {
		return "to be undone"
	}
	return "a failure undoes"
}

// Deadline says when the time of an engine's saga that goes forward is up, and what comes of that; "": it has
// none.
func (s *SagaStanding) Deadline(now time.Time) string {
	if s.Style != Orchestrated || s.State != string(plan.Running) || s.Due == nil {
		return ""
	}
	left := s.Due.Sub(now).Round(time.Second)
	when := fmt.Sprintf("in %s, at %s", left, timeText(*s.Due))
	if left <= 0 {
		when = fmt.Sprintf("was %s ago, at %s", -left, timeText(*s.Due))
	}
	switch {
	case s.Overdue, s.Forward:
		return when + ": its pivot is done, so it goes on"
	case s.Paused:
		return when + ": nothing comes of that while it is paused"
	case left <= 0:
		return when + ": no engine has looked at it since"
	}
	return when + ": then it turns back, unless its pivot is done"
}

func standingStep(r *plan.Run) StandingStep {
	out := StandingStep{Name: sagarow.StepName(r.Step, r.Occurrence), At: someTime(r.At), Stuck: r.Stuck,
		Attempts: r.Attempts, Error: r.Error}
	out.Outcome = cmp.Or(map[plan.Phase]string{plan.IsDone: StepDone, plan.Skipped: StepSkipped,
		plan.Refused: StepFailed, plan.Dropped: StepDropped,
		plan.Undo: StepUndoing, plan.Undoing: StepUndoing, plan.Undone: StepIsUndone}[r.Phase], StepRunning)
	if r.Phase != plan.Waiting && r.Phase != plan.Undoing {
		out.Next = someTime(r.Due)
	}
	return out
}

// waitOf is what a run waits for, if it does.
func waitOf(p *plan.Plan, r *plan.Run) (w Wait, waits bool) {
	if r.Phase != plan.Waiting && r.Phase != plan.Undoing {
		return w, false
	}
	w = Wait{What: WaitReply, After: sagarow.StepName(r.Step, r.Occurrence), Since: someTime(r.At),
		Due: someTime(dueOf(p, r))}
	if p == nil {
		return w, true
	}
	switch step, _ := p.Step(r.Step); {
	case step.Kind == plan.Child:
		w.What = WaitChild
	case step.Kind == plan.Lock:
		w.What = WaitEntities
	case step.Kind == plan.Wait && step.Signal == "":
		w.What = WaitTime
	case step.Kind == plan.Wait:
		w.What, w.For = WaitSignal, []string{step.Signal}
	}
	return w, true
}

// undos are the steps that took effect: those that are undone if the saga turns back, the last first, and
// those that are not. Past the pivot nothing is.
func undos(p *plan.Plan, st *plan.State) (undo, stays []string) {
	final := st.Status == plan.Running && p.Final(*st)
	for _, r := range slices.Backward(st.Runs) {
		step, known := p.Step(r.Step)
		took := r.Phase == plan.IsDone || r.Phase == plan.Undo || r.Phase == plan.Undoing
		switch name := sagarow.StepName(r.Step, r.Occurrence); {
		case !known || !took || step.NoEffect || step.Kind == plan.Wait || step.Kind == plan.Lock:
		case step.Undo && !final:
			undo = append(undo, name)
		default:
			stays = append(stays, name)
		}
	}
	return undo, stays
}

// remains are the steps until the end; of a saga that turns back, those that are to be undone, and before
// them those of which it is not known whether they took effect.
func remains(p *plan.Plan, st *plan.State, undo []string) (out []string) {
	begun := map[string]bool{}
	for _, r := range st.Runs {
		begun[r.Step] = true
		if r.Phase == plan.Deciding || r.Phase == plan.Ready || r.Phase == plan.Waiting {
			out = append(out, sagarow.StepName(r.Step, r.Occurrence))
		}
	}
	if st.Status == plan.Compensating {
		return append(out, undo...)
	}
	for _, step := range p.Graph.Steps {
		if !begun[step.Name] {
			out = append(out, step.Name)
		}
	}
	return out
}

// frees are the commands after which an engine goes on with s, if it has not ended.
func frees(s *store.Saga, goesOn bool, at string) (out []string) {
	if at != "" {
		at = " " + at
	}
	which := " -- " + shortlog.Shell(s.Name) + " " + shortlog.Shell(s.Key)
	if s.Stuck {
		out = append(out, "skald saga retry"+at+" --reason 'the cause is gone'"+which)
	}
	if s.Paused && goesOn {
		out = append(out, "skald saga resume"+at+" --reason 'it may go on'"+which)
	}
	return out
}
