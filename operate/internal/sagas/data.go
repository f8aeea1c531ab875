package sagas

import (
	"fmt"

	"github.com/skald-go/skald/internal/saga/plan"
)

// unfit tells why a saga cannot take the data: an undo, or a later step, would run on a zero value, or be
// stuck with what it cannot read.
func (c *SagaChange) unfit(p *plan.Plan, st *plan.State) string {
	what, shape := c.takes(p, st)
	switch {
	case shape == "" || shape == plan.Nothing && c.Data == nil:
		return ""
	case c.Data == nil:
		return fmt.Sprintf(
			"%s is %.300s, and no data was given: give it with --data; or --data null, if nothing reads it",
			what, shape)
	}
	if why := plan.Fits(shape, c.Data); why != "" {
		return fmt.Sprintf("the data does not fit: %s is %.300s; %s", what, shape, why)
	}
	return ""
}

// takes is what the data would be, and its shape; "": nothing reads it, or it is not known.
func (c *SagaChange) takes(p *plan.Plan, st *plan.State) (what, shape string) {
	if c.Verb == SignalSaga {
		return "the signal " + c.Signal, signalShape(p, c.Signal)
	}
	r, begun := st.Run(c.Step, c.Occurrence)
	undo := begun && (r.Phase == plan.Undo || r.Phase == plan.Undoing) // it puts nothing out
	if c.Verb != CompleteSaga || undo {
		return "", ""
	}
	step, _ := p.Step(c.Step)
	return "the output of " + c.Step, step.Shape
}

func signalShape(p *plan.Plan, signal string) string {
	for _, s := range p.Graph.Steps {
		if s.Kind == plan.Wait && s.Signal == signal {
			return s.Shape
		}
	}
	return ""
}

// Sample is the data as a command is printed with it: for the reader to fill in.
func Sample(shape string) string {
	if shape == plan.Nothing {
		return ""
	}
	return " --data '…'"
}
