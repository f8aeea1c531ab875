package operate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/sagarow"
)

// unfit explains why the data does not fit the type that a saga needs. Without this check an undo or a
// later step would run on a zero value, or be stuck with undecodable data. A type that the build did not
// describe is not checked.
func (c *SagaChange) unfit(p *plan.Plan, st *plan.State) string {
	what, step := c.takes(p, st)
	switch {
	case what == "" && c.Verb == CompleteSaga && c.Data != nil && string(c.Data) != "null":
		return fmt.Sprintf("the saga turned back, and %s is being undone, and an undo has no output: "+
			"omit --data to mark its undo as done", sagarow.StepName(c.Step, c.Occurrence))
	case what == "" || step.Shape == plan.Nothing && c.Data == nil:
		return ""
	case c.Data == nil && step.Shape != "":
		return fmt.Sprintf(
			"%s is %.300s, and no data was given: use --data, or --data null if no later step reads it",
			what, step.Shape)
	case c.Data == nil:
		return ""
	}
	if why := plan.Fits(cmp.Or(step.Reads, step.Shape), c.Data); why != "" {
		return fmt.Sprintf("the data does not fit: %s is %.300s; %s", what, step.Shape, why)
	}
	kept, err := json.Marshal(c.Data) // without blanks
	if most := p.Graph.MaxBytes; err == nil && most > 0 && len(kept) > most {
		return fmt.Sprintf("the data is too large: %s is %d bytes as JSON, and the limit is %d: store it in a "+
			"table, and pass its key, or raise saga.Options.MaxBytes in the service", what, len(kept), most)
	}
	return ""
}

// takes returns the description of the data, and the step that reads it. The description is "" if nothing
// reads it.
func (c *SagaChange) takes(p *plan.Plan, st *plan.State) (what string, step plan.Step) {
	if c.Verb == SignalSaga {
		for _, s := range p.Graph.Steps {
			if s.Kind == plan.Wait && s.Signal == c.Signal {
				return "the signal " + c.Signal, s
			}
		}
		return "", step
	}
	r, begun := st.Run(c.Step, c.Occurrence)
	undo := begun && (r.Phase == plan.Undo || r.Phase == plan.Undoing) // an undo has no output
	if c.Verb != CompleteSaga || undo {
		return "", step
	}
	step, _ = p.Step(c.Step)
	return "the output of " + c.Step, step
}

// otherData reports whether the data differ from the data that the saga took before.
func (c *SagaChange) otherData(st *plan.State, p *plan.Plan) bool {
	what, step := c.takes(p, st)
	// The output of a child is the child's own.
	if what == "" || step.Shape == plan.Nothing || step.Kind == plan.Child {
		return false
	}
	was, taken := c.took(st, p)
	return taken && !sameJSON(was, c.Data)
}

// took returns the data that arrived first.
func (c *SagaChange) took(st *plan.State, p *plan.Plan) (data json.RawMessage, taken bool) {
	if c.Verb == CompleteSaga {
		r, begun := st.Run(c.Step, c.Occurrence)
		return r.Output, begun && r.Phase == plan.IsDone
	}
	for i := range st.Runs {
		r := &st.Runs[i]
		step, known := p.Step(r.Step)
		if known && step.Kind == plan.Wait && step.Signal == c.Signal && r.Occurrence == c.Occurrence &&
			r.Phase == plan.IsDone {
			return r.Output, true
		}
	}
	for _, d := range st.Early {
		if d.Name == c.Signal && d.Occurrence == c.Occurrence {
			return d.Data, true
		}
	}
	return nil, false
}

// sameJSON reports whether two JSON values are equal, regardless of their format. Empty data is null.
func sameJSON(a, b json.RawMessage) bool {
	value := func(data json.RawMessage) (v any) {
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		_ = d.Decode(&v) // it was checked on arrival; empty data is null
		return v
	}
	return reflect.DeepEqual(value(a), value(b))
}

// sample returns the flag --data of a printed command, with a value for the reader to fill in.
func sample(shape string) string {
	if shape == plan.Nothing {
		return ""
	}
	return " --data '…'"
}
