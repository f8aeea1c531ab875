package sagatest

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/saga/engine"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/saga"
)

// Signal sets the values of a signal, for all steps and occurrences that wait for it. With the first value
// the saga must end well. With each other value it may turn back, and Check tries all faults again.
func Signal[T any](s saga.Signal[T], first T, others ...T) Term {
	return bringing(source{Signal: s.Name}, append([]T{first}, others...))
}

// Reply sets the values of a participant's reply to a command, like Signal. Check tries refusals without a
// Reply.
func Reply[T any](e skald.Event[T], first T, others ...T) Term {
	return bringing(source{Topic: e.Topic, Type: e.Type}, append([]T{first}, others...))
}

// source identifies a signal, or a kind of reply.
type source struct{ Signal, Topic, Type string }

func (s source) String() string {
	if s.Signal != "" {
		return "the signal " + s.Signal
	}
	return fmt.Sprintf("the reply %s on %s", s.Type, s.Topic)
}

// brings has the values of a source.
type brings struct {
	of     source
	values []json.RawMessage
	err    error
}

func (brings) term() {}

func bringing[T any](of source, values []T) brings {
	b := brings{of: of}
	for _, v := range values {
		data, err := json.Marshal(v)
		if err != nil {
			b.err = fmt.Errorf("encode the values of %v: %w", of, err)
		}
		b.values = append(b.values, data)
	}
	return b
}

// value is another value of a source, or the absence of one until the timeout.
type value struct {
	of   source
	data json.RawMessage
	late bool
}

// sourceOf returns the signal or the reply with which a step ends. It returns found=false if the step ends
// with neither of them.
func sourceOf(d *engine.Definition, at int) (s source, found bool) {
	node, step := d.Plan.Graph.Steps[at], d.Steps[at]
	switch {
	case node.Signal != "":
		return source{Signal: node.Signal}, true
	case step.Command != nil:
		return source{Topic: step.Command.Done.Topic, Type: step.Command.Done.Type}, true
	}
	return s, false
}

// take stores the values of sources, and checks them.
func (c *checker[TTx]) take(all []brings) error {
	var errs []error
	c.first = map[source]json.RawMessage{}
	for _, b := range all {
		_, twice := c.first[b.of]
		if errs = append(errs, b.err, c.checkSource(b)); twice {
			errs = append(errs, fmt.Errorf("the values of %v are given twice", b.of))
		}
		c.first[b.of] = b.values[0]
		for _, data := range b.values[1:] {
			c.values = append(c.values, value{of: b.of, data: data})
		}
	}
	for i, step := range c.d.Plan.Graph.Steps {
		if s, is := sourceOf(c.d, i); is && step.Lapses {
			c.values = append(c.values, value{of: s, late: true})
		}
	}
	return errors.Join(errs...)
}

// checkSource returns an error if no step waits for the source of b, or if a step does not accept a value
// of b.
func (c *checker[TTx]) checkSource(b brings) error {
	found := false
	for _, d := range []*engine.Definition{c.d, c.older} {
		if d == nil {
			continue
		}
		for i, step := range d.Steps {
			if s, is := sourceOf(d, i); !is || s != b.of {
				continue
			}
			found = true
			for _, data := range b.values {
				err := step.Check(data)
				if err == nil {
					err = engine.CheckSize("it", data, d.MaxBytes)
				}
				if err != nil {
					return fmt.Errorf("the step %s does not take %.200s from %v: %w",
						d.Plan.Graph.Steps[i].Name, data, b.of, err)
				}
			}
		}
	}
	if !found {
		return fmt.Errorf("no step of the saga %s waits for %v", c.d.Name, b.of)
	}
	return nil
}

// valueOf returns the value of a source in this run, and a text for the trace.
func (r *sagaRun[TTx]) valueOf(src source) (v value, note string) {
	r.met[src] = true
	v = value{of: src, data: r.c.first[src]}
	for _, f := range r.faults {
		if f.Mode == Value && r.c.values[f.At-1].of == src {
			v = r.c.values[f.At-1]
		}
	}
	if v.data == nil {
		v.data = json.RawMessage("null")
	} else {
		note = fmt.Sprintf(" brings %.200s", v.data)
	}
	return v, note
}

// playOther acts as a participant, a child or the sender of a signal. It returns false if the run waits for
// none of these.
func (r *sagaRun[TTx]) playOther(run plan.Run) bool {
	step, _ := r.d.Plan.Step(run.Step)
	switch {
	case run.Phase == plan.Undoing:
		r.feed(plan.Event{What: plan.UndoDone, Step: run.Step, Occurrence: run.Occurrence, Sends: run.Sends})
	case step.Kind == plan.Wait && step.Signal == "", step.Kind == plan.Lock:
		return false
	case step.Kind == plan.Wait:
		r.signal(run, step)
	default:
		r.reply(run, step)
	}
	return true
}

// signal sends the signal for which a step waits.
func (r *sagaRun[TTx]) signal(run plan.Run, step plan.Step) {
	v, note := r.valueOf(source{Signal: step.Signal})
	modes := []Mode{Twice}
	if !run.Due.IsZero() && !step.Lapses {
		modes = append(modes, Late)
	}
	mode, gone := r.point("signal "+step.Signal+note, run, modes...)
	if gone {
		return
	}
	if mode == Late || v.late && !run.Due.IsZero() {
		r.addNote("it arrives after its Timeout")
		r.moveClock(run.Due)
	}
	e := plan.Event{What: plan.Signal, Name: step.Signal, Occurrence: run.Occurrence, Output: v.data}
	if r.feed(e); mode == Twice {
		r.feed(e)
	}
}

// reply sends the reply of a participant, or the end of a child.
func (r *sagaRun[TTx]) reply(run plan.Run, step plan.Step) {
	e := plan.Event{Step: run.Step, Occurrence: run.Occurrence, Sends: run.Sends}
	modes, note := r.mayReject(Rejects, Twice), ""
	if step.Kind == plan.Child {
		e.Output = childEnded(run)
	} else {
		own, _ := r.d.Step(run.Step)
		var v value
		v, note = r.valueOf(source{Topic: own.Command.Done.Topic, Type: own.Command.Done.Type})
		e.Output = v.data
	}
	if !run.Due.IsZero() && r.state.Status == plan.Running {
		if modes = append(modes, Lost); step.Kind == plan.Command {
			modes = append(modes, Late)
		}
	}
	mode, gone := r.point("reply to "+name(run.Step, run.Occurrence)+note, run, modes...)
	if gone {
		return
	}
	if mode == Lost || mode == Late {
		r.moveClock(run.Due)
	}
	if mode == Lost {
		return
	}
	if e.What = plan.Succeeded; mode == Rejects || r.state.Status == plan.Compensating &&
		step.Kind == plan.Child {
		e.What, e.Reason = plan.Rejected, "injected"
	}
	if r.feed(e); mode == Twice {
		r.feed(e)
	}
}

// childEnded returns the output of a step after its child is done.
func childEnded(run plan.Run) json.RawMessage {
	var was saga.ChildOutput
	if json.Unmarshal(run.Memo, &was) != nil {
		return json.RawMessage("null")
	}
	was.ID = "00000000-0000-7000-8000-000000000009"
	data, _ := json.Marshal(was)
	return data
}

// moveClock moves the clock to t.
func (r *sagaRun[TTx]) moveClock(t time.Time) {
	if t.After(r.now) {
		r.now = t
	}
	r.feed(plan.Event{What: plan.Tick})
}
