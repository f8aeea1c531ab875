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

// unfit explains why c.Data does not fit the type that a step reads. Without this check, a later step or an
// undo would run with a zero value, or would be stuck because it cannot decode the data. If the definition
// does not describe the type, unfit checks nothing.
func (c *SagaChange) unfit(p *plan.Plan, st *plan.State) string {
	what, step := c.readerOf(p, st)
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

// readerOf returns a description of c.Data, and the step that has this data as its signal or output. The
// description is "" if the change has no use for data.
func (c *SagaChange) readerOf(p *plan.Plan, st *plan.State) (what string, step plan.Step) {
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

// otherData reports whether c.Data differs from the data that the saga has stored already.
func (c *SagaChange) otherData(st *plan.State, p *plan.Plan) bool {
	what, step := c.readerOf(p, st)
	// The child saga itself sets the output of its step, so it may differ from c.Data.
	if what == "" || step.Shape == plan.Nothing || step.Kind == plan.Child {
		return false
	}
	data, stored := c.storedData(st, p)
	return stored && !sameJSON(data, c.Data)
}

// storedData returns the output or the value of the signal that the saga has stored already.
func (c *SagaChange) storedData(st *plan.State, p *plan.Plan) (data json.RawMessage, stored bool) {
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
		_ = d.Decode(&v) // empty data is null; other data was checked before
		return v
	}
	return reflect.DeepEqual(value(a), value(b))
}

// sample returns the flag --data for a printed command. The operator replaces its value.
func sample(shape string) string {
	if shape == plan.Nothing {
		return ""
	}
	return " --data '…'"
}
