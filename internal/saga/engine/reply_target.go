package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/internal/saga/plan"
)

// target is a command that a reply may answer.
type target struct {
	run     plan.Run
	command *Command // nil if this build does not have the command
	undo    bool
	sends   int // number of the attempt; 0 if unknown
}

// commands returns the commands that a saga has sent. The keys of the map are the time-independent parts of
// the commands' ids.
func (t *taking) commands() map[string]target {
	all := map[string]target{}
	for _, r := range t.st.Runs {
		for _, to := range t.commandsOf(r) {
			for n := 1; n <= r.Sends; n++ {
				to.sends = n
				id := command{Saga: t.st.ID, Step: r.Born(), Occurrence: r.Occurrence,
					Undo: to.undo, Number: n}
				all[id.Own()] = to
			}
		}
	}
	return all
}

// commandsOf returns the possible commands of a run: forward and undo. A saga of another definition may have
// commands that this build does not have.
func (t *taking) commandsOf(r plan.Run) []target {
	if node, _ := t.p.Step(r.Step); node.Kind != plan.Command {
		return nil
	}
	do, undo := target{run: r}, target{run: r, undo: true}
	if step, ok := t.d.Step(t.names.Name(r.Step)); ok {
		do.command, undo.command = step.Command, step.Undo
	}
	return slices.DeleteFunc([]target{do, undo},
		func(to target) bool { return to.command == nil && !t.otherDefinition() })
}

// otherDefinition reports whether the saga has another definition than this build.
func (t *taking) otherDefinition() bool { return t.s.Hash != t.d.Hash }

// findTarget returns the command that a reply answers. The causation id of the reply names the command. If
// the caller gave only the saga's key, a reply with another causation id answers the command that waits for
// this type of reply, if there is exactly one. If the reply may answer a command that this build does not
// have, findTarget returns an error that leaves the reply to another build.
func (t *taking) findTarget(r *reply, st plan.State) (to target, ok bool, err error) {
	to, ok = t.sent[timelessID(r.Message.CausationID)]
	switch {
	case ok && to.answeredBy(r.Message):
		return to, true, nil
	case ok && t.otherDefinition():
		return to, false, t.leftToOther(to)
	case r.Message.CausationID != "" && r.id != "":
		return to, false, nil
	}
	n := 0
	for _, run := range st.Runs {
		for _, one := range t.commandsOf(run) {
			switch {
			case !one.open():
			case one.command == nil:
				return to, false, t.leftToOther(one)
			case one.answeredBy(r.Message):
				to = one
				n++
			}
		}
	}
	return to, n == 1, nil // no command, or ambiguous
}

// leftToOther returns an error that leaves a reply to a build that has the command.
func (t *taking) leftToOther(to target) error {
	return skald.UnknownVersion(fmt.Errorf(
		"the saga %s %q is of the definition %s, and this build has another one, whose step %s "+
			"does not take the reply: it is left to a build that does", t.s.Name, t.s.Key, t.s.Hash,
		to.run.Step))
}

func (t *target) open() bool {
	if t.undo {
		return t.run.Phase == plan.Undoing
	}
	return t.run.Phase == plan.Waiting
}

// answeredBy reports whether a message of the topic and type of m answers the command.
func (t *target) answeredBy(m skald.Message) bool {
	is := func(r Reply) bool { return r.Topic == m.Topic && r.Type == m.Type }
	return t.command != nil && (is(t.command.Done) || slices.ContainsFunc(t.command.Refused, is))
}

func (t *target) event(ctx context.Context, m skald.Message) (e plan.Event, err error) {
	e = plan.Event{What: plan.Succeeded, Step: t.run.Step, Occurrence: t.run.Occurrence, Sends: t.sends}
	r := t.command.Done
	if r.Topic != m.Topic || r.Type != m.Type {
		e.What = plan.Rejected
		i := slices.IndexFunc(t.command.Refused,
			func(r Reply) bool { return r.Topic == m.Topic && r.Type == m.Type })
		r = t.command.Refused[i]
	}
	if e.Output, e.Reason, err = r.Read(ctx, m); err != nil {
		return e, &failure.MalformedError{Err: err}
	}
	switch {
	case t.undo && e.What == plan.Succeeded:
		e.What, e.Output = plan.UndoDone, nil
	case t.undo:
		e.What, e.Permanent = plan.UndoFailed, true
		e.Reason = cmp.Or(e.Reason, "it was refused")
	case e.What == plan.Succeeded:
		e.Reason = ""
	}
	return e, nil
}
