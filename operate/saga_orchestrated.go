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
	"github.com/skald-go/skald/store"
)

// orchestrated returns the orchestrated sagas with a key, ordered by name.
func orchestrated(ctx context.Context, db store.Lister, key, at string) ([]SagaProgress, error) {
	list, err := store.ListSagas(ctx, db, store.SagaQuery{Key: key})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	noted, err := db.List(ctx, store.List{Definitions: true})
	if err != nil {
		return nil, err
	}
	plans := plansOf(noted.Definitions)
	out := make([]SagaProgress, 0, len(list))
	for i := range list {
		p := plans[list[i].Hash]
		one, err := orchestratedOf(&list[i], p, at)
		if err != nil {
			return out, err
		}
		if why := whyNoEngine(&list[i], noted.Definitions); why != "" {
			one.addNoEngine(why)
		}
		if err := one.addEntities(ctx, db, &list[i], p); err != nil {
			return out, err
		}
		out = append(out, one)
	}
	return out, nil
}

// addNoEngine records the reason why no engine runs the saga. Its running steps are then next, not in
// progress.
func (s *SagaProgress) addNoEngine(reason string) {
	s.Drift = append(s.Drift, reason)
	for i := range s.Steps {
		if s.Steps[i].Outcome == StepRunning && !slices.ContainsFunc(s.Waiting, func(w Wait) bool {
			return w.After == s.Steps[i].Name
		}) {
			s.Steps[i].Outcome = StepNext
		}
	}
}

// addEntities adds to s.Waiting the entities that a Lock of s waits for, and the begin of that wait.
func (s *SagaProgress) addEntities(ctx context.Context, db store.Lister, row *store.Saga,
	p *plan.Plan) error {
	i := slices.IndexFunc(s.Waiting, func(w Wait) bool { return w.Kind == WaitEntities })
	if i < 0 {
		return nil
	}
	places, err := holdsOf(ctx, db, row, p)
	for _, h := range places {
		w := &s.Waiting[i]
		if len(w.For) < maxEntities {
			w.For = append(w.For, entity(h))
		} else {
			w.More++
		}
		if w.Since == nil || h.Since.Before(*w.Since) { // the run has only the time of its last check
			w.Since = new(h.Since)
		}
	}
	return err
}

// orchestratedOf returns the state of s. p is nil if no engine has stored its definition.
func orchestratedOf(s *store.Saga, p *plan.Plan, at string) (out SagaProgress, err error) {
	deadline := time.Duration(0)
	if p != nil {
		deadline = p.Graph.Deadline
	}
	st, err := sagarow.StateOf(*s, deadline)
	if err != nil {
		return out, err
	}
	final, left := st.Status.Final(), leftBy(s, at)
	out = SagaProgress{Style: Orchestrated, Name: s.Name, Key: s.Key, ID: s.ID, State: s.Status,
		Stuck: s.Stuck, Paused: s.Paused && !final, Overdue: st.Overdue,
		Forward: st.Status == plan.Running && p != nil && p.Final(st),
		Steps:   []StepProgress{}, Due: timeOrNil(st.Deadline), Started: s.Started, Changed: s.Changed,
		Ended: timeOrNil(s.Ended)}
	if st.Overdue && out.Due == nil && deadline > 0 { // the state drops a deadline that has passed
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
		step := stepProgress(r)
		step.Failures = stepFailures(&st, i)
		if step.Outcome == StepRunning && r.Phase != plan.Waiting && (left != "" || p == nil) {
			step.Outcome = StepNext
		}
		out.Steps = append(out.Steps, step)
		if w, waits := waitOf(p, r); waits && !final {
			out.Waiting = append(out.Waiting, w)
		}
	}
	switch {
	case left != "" && !s.Stuck: // the error and the times are those of the build that left the saga
	case s.Failed > 0 || s.Stuck:
		out.Retrying = &Retrying{Step: s.Step, Attempt: s.Failed + 1, Error: s.Error,
			Since: timeOrNil(s.Since), Next: timeOrNil(s.Retry)}
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
			"no engine has stored its definition (%s), so no engine runs it: check that a build with this definition runs",
			s.Hash))
	}
	out.Commands = commandsToUnblock(s, !final, at)
	return out, nil
}

// leftBy describes why and when a build left s to another build, and the remedy. It returns "" if no build
// left s.
func leftBy(s *store.Saga, at string) string {
	if !sagarow.WasLeft(s.SagaStatus) || !s.Ended.IsZero() {
		return ""
	}
	return fmt.Sprintf("since %s no build runs it: a build left it to another build (%s). Start a build that can run it, "+
		"or give the next build a mapping; to compare: skald saga check%s --definitions '…'", formatTime(s.Since),
		firstLine(strings.TrimPrefix(s.Error, sagarow.LeftToOthers)), spaced(at))
}

// UndoWord returns a heading for the steps in Undo. If the saga turns back, they will be undone. Otherwise
// only a failure would undo them.
func (s *SagaProgress) UndoWord() string {
	if s.State == string(plan.Compensating) {
		return "to be undone"
	}
	return "a failure undoes"
}

// Deadline describes the deadline of a running orchestrated saga and its effect. It returns "" if there is no
// deadline.
func (s *SagaProgress) Deadline(now time.Time) string {
	if s.Style != Orchestrated || s.State != string(plan.Running) || s.Due == nil {
		return ""
	}
	left := s.Due.Sub(now).Round(time.Second)
	when := fmt.Sprintf("in %s, at %s", left, formatTime(*s.Due))
	if left <= 0 {
		when = fmt.Sprintf("was %s ago, at %s", -left, formatTime(*s.Due))
	}
	switch {
	case s.Overdue, s.Forward:
		return when + ": its pivot is done, so it goes on"
	case s.Paused:
		return when + ": it has no effect while the saga is paused"
	case left <= 0:
		return when + ": no engine has run it since"
	}
	return when + ": then it turns back, unless its pivot is done"
}

func stepProgress(r *plan.Run) StepProgress {
	out := StepProgress{Name: sagarow.StepName(r.Step, r.Occurrence), At: timeOrNil(r.At), Stuck: r.Stuck,
		Attempts: r.Attempts, Error: r.Error}
	out.Outcome = cmp.Or(map[plan.Phase]string{plan.IsDone: StepDone, plan.Skipped: StepSkipped,
		plan.Refused: StepFailed, plan.Dropped: StepDropped,
		plan.Undo: StepUndoing, plan.Undoing: StepUndoing, plan.Undone: StepUndone}[r.Phase], StepRunning)
	if r.Phase != plan.Waiting && r.Phase != plan.Undoing {
		out.Next = timeOrNil(r.Due)
	}
	return out
}

// waitOf describes the wait of a run. It returns waiting=false if the run does not wait.
func waitOf(p *plan.Plan, r *plan.Run) (w Wait, waiting bool) {
	if r.Phase != plan.Waiting && r.Phase != plan.Undoing {
		return w, false
	}
	w = Wait{Kind: WaitReply, After: sagarow.StepName(r.Step, r.Occurrence), Since: timeOrNil(r.At),
		Due: timeOrNil(dueOf(p, r))}
	if p == nil {
		return w, true
	}
	switch step, _ := p.Step(r.Step); {
	case step.Kind == plan.Child:
		w.Kind = WaitChild
	case step.Kind == plan.Lock:
		w.Kind = WaitEntities
	case step.Kind == plan.Wait && step.Signal == "":
		w.Kind = WaitTime
	case step.Kind == plan.Wait:
		w.Kind, w.For = WaitSignal, []string{step.Signal}
	}
	return w, true
}

// undos returns the steps that took effect, the last first. undo has the steps that would be undone if the
// saga turned back. stays has the others. After the pivot all steps are in stays.
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

// remains returns the remaining steps. For a saga that turns back, these are the steps with an unknown
// effect, and then the steps to undo.
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

// commandsToUnblock returns the commands that make an engine continue s.
func commandsToUnblock(s *store.Saga, goesOn bool, at string) (out []string) {
	at = spaced(at)
	which := sagaArgs(s.Name, s.Key)
	if s.Stuck {
		out = append(out, "skald saga retry"+at+" --reason 'the cause is gone'"+which)
	}
	if s.Paused && goesOn {
		out = append(out, "skald saga resume"+at+" --reason 'it may go on'"+which)
	}
	return out
}
