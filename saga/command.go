package saga

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/saga/engine"
	"github.com/skald-go/skald/internal/saga/plan"
)

// Replies declares the replies of a participant to a command. A reply need not name the saga: Skald sets the
// causation id of a message that is emitted in the command's transaction to the id of the command.
type Replies[Out any] struct {
	done    skald.Event[Out]
	refused []Refusal
}

// Refusal declares a reply that refuses a command.
type Refusal struct{ reply engine.Reply }

// Reply declares the replies to a command: the event of its success, with the output of the step as its
// data, and the refusals.
func Reply[Out any](success skald.Event[Out], refused ...Refusal) Replies[Out] {
	return Replies[Out]{success, refused}
}

// RefusedBy declares a refusal. The function reason returns the reason, for operators. If reason is nil,
// the reason is the type of the event.
func RefusedBy[T any](e skald.Event[T], reason func(T) string) Refusal {
	return Refusal{engine.Reply{Topic: e.Topic, Type: e.Type,
		Read: func(ctx context.Context, m skald.Message) (json.RawMessage, string, error) {
			r, err := e.Decode(ctx, m)
			if err != nil || reason == nil {
				return nil, e.Type, err
			}
			return nil, reason(r.Value), nil
		}}}
}

func (p Replies[Out]) replies(to *engine.Command) {
	to.Done = engine.Reply{Topic: p.done.Topic, Type: p.done.Type,
		Read: func(ctx context.Context, m skald.Message) (json.RawMessage, string, error) {
			r, err := p.done.Decode(ctx, m)
			if err != nil {
				return nil, "", err
			}
			var out skald.Message
			err = (skald.JSON{}).Encode(ctx, &out, r.Value)
			return out.Data, "", err
		}}
	for _, no := range p.refused {
		to.Refused = append(to.Refused, no.reply)
	}
}

// UndoBy undoes a Command by another command. The engine also sends this undo if the first command has no
// reply yet. The participant then undoes the step, or bars it so that it never runs, and replies in both
// cases: see inbox.UndoOn. Both commands have the saga's key. So if the participant has the first command
// parked or as a dead letter, the undo waits for it.
func UndoBy[In, Cmd, Ans any](e skald.Event[Cmd], payload func(r Run[In]) Cmd, replies Replies[Ans]) Option {
	return func(s *spec) {
		if s.kind != plan.Command || s.in != typeOf[In]() {
			s.fault("its UndoBy is for a Command with the input %v", typeOf[In]())
			return
		}
		if payload == nil {
			s.fault("its undo has no function that makes its command")
		}
		c := commandOf(e, payload, replies)
		s.body.Undo, s.undo = &c, true
		s.faults = append(s.faults, validCommand("its undo", e.Topic, e.Type, c)...)
	}
}

// Command returns a step that another service runs. The engine writes the command to the outbox together with
// the saga's state, under the saga's business key. The step ends with a reply. The option UndoBy adds an
// undo.
func Command[In, Cmd, Out any](name string, e skald.Event[Cmd], payload func(r Run[In]) Cmd,
	replies Replies[Out], opts ...Option) *Step[In, Out] {
	c := commandOf(e, payload, replies)
	s := newStep[In, Out](name, plan.Command, engine.StepBody{Command: &c}, false, opts)
	if payload == nil {
		s.spec.fault("it has no function that makes its command")
	}
	s.spec.faults = append(s.spec.faults, validCommand("its command", e.Topic, e.Type, c)...)
	return s
}

// replyFaults returns an error for each reply that has the topic and type of a command of these definitions.
// The engine would handle its own command as the reply.
func replyFaults(defs ...*engine.Definition) (faults []error) {
	sent := map[[2]string]string{}
	commands := func(each func(what string, c *engine.Command)) {
		for _, d := range defs {
			for i, s := range d.Steps {
				step := fmt.Sprintf("step %q of the saga %q", d.Plan.Graph.Steps[i].Name, d.Name)
				if s.Command != nil {
					each("the command of "+step, s.Command)
				}
				if s.Undo != nil {
					each("the undo of "+step, s.Undo)
				}
			}
		}
	}
	commands(func(what string, c *engine.Command) { sent[[2]string{c.Topic, c.Type}] = what })
	commands(func(what string, c *engine.Command) {
		for _, r := range append([]engine.Reply{c.Done}, c.Refused...) {
			if other, is := sent[[2]string{r.Topic, r.Type}]; is && r.Type != "" {
				faults = append(faults, fmt.Errorf("a reply to %s has the type %q on the topic %q, as %s has: the "+
					"engine would take that command for the reply: give the reply a type or a topic of its own",
					what, r.Type, r.Topic, other))
			}
		}
	})
	return faults
}

func commandOf[In, Cmd, Out any](e skald.Event[Cmd], payload func(r Run[In]) Cmd,
	replies Replies[Out]) engine.Command {
	c := engine.Command{Topic: e.Topic, Type: e.Type, Draft: func(f *engine.Facts) (skald.Draft, error) {
		r, err := runOf[In](f)
		if err != nil {
			return skald.Draft{}, err
		}
		d := e.New(f.Key, payload(r))
		return d, f.Fault(nil)
	}}
	replies.replies(&c)
	return c
}

func validCommand(what, topic, typ string, c engine.Command) (faults []error) {
	if topic == "" || typ == "" {
		faults = append(faults, fmt.Errorf("%s has no topic or no type", what))
	}
	seen := map[[2]string]bool{}
	for _, r := range append([]engine.Reply{c.Done}, c.Refused...) {
		switch k := [2]string{r.Topic, r.Type}; {
		case r.Topic == "" || r.Type == "":
			faults = append(faults, errors.New(what+" has a reply without a topic or a type"))
		case seen[k]:
			faults = append(faults,
				fmt.Errorf("%s has two replies of the type %s on %s: give them different types", what,
					r.Type, r.Topic))
		default:
			seen[k] = true
		}
	}
	return faults
}
