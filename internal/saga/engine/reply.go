package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/saga/body"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/saga/stored"
)

// A Kind is a topic and a type of replies.
type Kind struct{ Topic, Type string }

// Replies are the kinds of messages that participants reply with.
func (e *Engine[TTx]) Replies() (out []Kind) {
	for _, d := range e.defs {
		for i := range d.Steps {
			for _, c := range []*body.Command{d.Steps[i].Command, d.Steps[i].Undo} {
				if c == nil {
					continue
				}
				for _, r := range append([]body.Reply{c.Done}, c.Refused...) {
					if k := (Kind{r.Topic, r.Type}); !slices.Contains(out, k) {
						out = append(out, k)
					}
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b Kind) int { return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Type, b.Type)) })
	return out
}

// Outcomes of replies, beside those of events.
const (
	Foreign plan.Outcome = "foreign" // it answers no command of a saga
	Orphan  plan.Outcome = "orphan"  // its saga, or its command, is not known
)

func (e *Engine[TTx]) replied(out plan.Outcome) {
	e.counts.reply(out)
	e.metrics.Replied(string(out))
}

// Reply takes a participant's reply into its saga, in the transaction of an inbox. What it came to is
// counted, and logged where it did not count: that is no failure, and not tried again.
func (e *Engine[TTx]) Reply(ctx context.Context, tx TTx, m skald.Message) error {
	name, key, id, ok := parse(m.CorrelationID)
	d, known := e.defs[name]
	if !ok || !known {
		e.replied(Foreign)
		return nil
	}
	out, err := e.reply(ctx, tx, m, d, key, id)
	if err != nil {
		return err
	}
	if !out.Changed() && out != plan.Repeat {
		e.o.Logger.WarnContext(ctx, "saga: a reply does not count", "saga", name, "key", key, "outcome", string(out), "topic", m.Topic,
			"type", m.Type, "id", m.ID, "causation", m.CausationID)
	}
	return nil
}

// Answer takes a message as a reply to the saga of a key, whatever the message says of its cause.
func (e *Engine[TTx]) Answer(ctx context.Context, tx TTx, d *body.Definition, key string, m skald.Message) (plan.Outcome, error) {
	out, err := e.reply(ctx, tx, m, d, key, "")
	if err != nil {
		return out, fmt.Errorf("take %s as a reply to %s %q: %w", m.Type, d.Name, key, err)
	}
	return out, nil
}

// reply takes a reply to the saga of a key. Its id is "" where only the key is known: then the message need
// not name the command either.
func (e *Engine[TTx]) reply(ctx context.Context, tx TTx, m skald.Message, d *body.Definition, key, id string) (out plan.Outcome, err error) {
	defer func() {
		if err == nil {
			e.replied(out)
		}
	}()
	s, there, err := e.db.LockSaga(ctx, tx, d.Name, key)
	if err != nil {
		return plan.Unknown, err
	}
	if !there || id != "" && s.ID != id {
		return Orphan, nil
	}
	st, err := stored.StateOf(s, 0)
	if err != nil {
		return plan.Unknown, err
	}
	ev, ok, err := answers(ctx, m, d, st, id == "")
	if err != nil {
		return plan.Unknown, err
	}
	if !ok {
		return Orphan, nil
	}
	out, _, err = e.put(ctx, tx, s.Name, s.Key, ev)
	return out, err
}

// answers is the event that a reply is. One that names the command it answers is told by that; with bare, one
// that names another message is taken for an answer to the one command of its kind that waits.
func answers(ctx context.Context, m skald.Message, d *body.Definition, st plan.State, bare bool) (e plan.Event, ok bool, err error) {
	var found []target
	for _, r := range st.Runs {
		step, there := d.Step(r.Step)
		if !there || step.Command == nil {
			continue
		}
		for _, t := range []target{{r, step.Command, false, 0}, {r, step.Undo, true, 0}} {
			if t.command == nil || !t.by(m) {
				continue
			}
			if (m.CausationID == "" || bare) && t.open() {
				found = append(found, t)
			}
			for t.sends = 1; t.sends <= r.Sends; t.sends++ {
				if isCommand(m.CausationID, st.ID, r.Step, r.Occurrence, t.undo, t.sends) {
					e, err := t.event(ctx, m)
					return e, true, err
				}
			}
		}
	}
	if len(found) != 1 { // none, or who knows which
		return e, false, nil
	}
	e, err = found[0].event(ctx, m)
	return e, true, err
}

// A target is a command that a reply may answer.
type target struct {
	run     plan.Run
	command *body.Command
	undo    bool
	sends   int // 0: not known
}

func (t *target) open() bool {
	if t.undo {
		return t.run.Phase == plan.Undoing
	}
	return t.run.Phase == plan.Waiting
}

// by tells whether the command is answered by messages like m.
func (t *target) by(m skald.Message) bool {
	is := func(r body.Reply) bool { return r.Topic == m.Topic && r.Type == m.Type }
	return is(t.command.Done) || slices.ContainsFunc(t.command.Refused, is)
}

func (t *target) event(ctx context.Context, m skald.Message) (e plan.Event, err error) {
	e = plan.Event{What: plan.Succeeded, Step: t.run.Step, Occurrence: t.run.Occurrence, Sends: t.sends}
	r := t.command.Done
	if r.Topic != m.Topic || r.Type != m.Type {
		e.What = plan.Rejected
		i := slices.IndexFunc(t.command.Refused, func(r body.Reply) bool { return r.Topic == m.Topic && r.Type == m.Type })
		r = t.command.Refused[i]
	}
	if e.Output, e.Reason, err = r.Read(ctx, m); err != nil {
		return e, err
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
