package saga

import (
	"encoding/json"
	"fmt"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/saga/engine"
	"github.com/skald-go/skald/internal/saga/plan"
)

// Run describes the saga and the attempt. The engine passes it to the functions of steps.
type Run[In any] struct {
	In         In     // the stored input; each call gets its own copy
	ID         string // the id of the saga, unique even among sagas with the same key
	Key        string // the business key
	Occurrence string // the occurrence, if the step has Each
	Attempt    int    // 1 is the first

	facts *engine.Facts
}

// CallKey returns an idempotency key for external requests of this step: 32 hexadecimal digits. All attempts
// have the same key; the undo has a different key.
func (r Run[In]) CallKey() string {
	if r.facts == nil {
		return ""
	}
	return r.facts.CallKey()
}

// ForwardKey returns, for use in an undo, the CallKey of the step that it undoes.
func (r Run[In]) ForwardKey() string {
	if r.facts == nil {
		return ""
	}
	return r.facts.ForwardKey()
}

func runOf[In any](f *engine.Facts) (Run[In], error) {
	v, err := f.In()
	if err != nil {
		return Run[In]{}, err
	}
	in, ok := v.(In)
	if !ok {
		return Run[In]{}, skald.Permanent(fmt.Errorf("the step %s takes %v, and the saga %s has %T", f.Step,
			typeOf[In](), f.Definition.Name, v))
	}
	return Run[In]{In: in, ID: f.State.ID, Key: f.Key, Occurrence: f.Occurrence, Attempt: f.Attempt,
		facts: f}, nil
}

// Step is a step of a saga with the input In. Use it with After, and to read the step's output.
type Step[In, Out any] struct{ spec *spec }

func (s *Step[In, Out]) takes(In) {}

func (s *Step[In, Out]) of() *spec { return s.spec }

// Name returns the name of the step.
func (s *Step[In, Out]) Name() string { return s.spec.name }

// Output returns the output of s to a later step. If s has occurrences, it returns the output for r's
// occurrence; Outputs returns all of them. If s does not come before the current step, or may have been
// skipped, the current step fails without a retry. See OutputIfRun.
func (s *Step[In, Out]) Output(r Run[In]) Out {
	var out Out
	if err := s.fault(r); err != nil {
		r.fail(err)
		return out
	}
	if st, _ := r.facts.Definition.Plan.Step(s.spec.name); st.When || st.Lapses {
		r.fail(fmt.Errorf("the step %s may have been skipped: read it with OutputIfRun", s.spec.name))
		return out
	}
	out, ok := s.read(r, r.Occurrence)
	if !ok {
		r.fail(
			fmt.Errorf("the step %s has no output: it has no answer yet, an operator skipped it, or it has other occurrences (see Outputs)", s.spec.name))
	}
	return out
}

// OutputIfRun is like Output, for a step that may have been skipped. It returns false if the step was
// skipped.
func (s *Step[In, Out]) OutputIfRun(r Run[In]) (Out, bool) {
	if err := s.fault(r); err != nil {
		r.fail(err)
		var none Out
		return none, false
	}
	return s.read(r, r.Occurrence)
}

// Outputs returns the outputs of s by occurrence. It omits occurrences that were skipped.
func (s *Step[In, Out]) Outputs(r Run[In]) map[string]Out {
	if err := s.fault(r); err != nil {
		r.fail(err)
		return nil
	}
	all := map[string]Out{}
	for _, run := range r.facts.State.Runs {
		if run.Step == s.spec.name {
			if out, ok := s.read(r, run.Occurrence); ok {
				all[run.Occurrence] = out
			}
		}
	}
	return all
}

// fault returns an error if the function that r belongs to must not read s.
func (s *Step[In, Out]) fault(r Run[In]) error {
	f := r.facts
	if f == nil {
		return nil
	}
	own, ok := f.Definition.Step(s.spec.name)
	switch {
	case !ok || own.Handle != Handle(s):
		return fmt.Errorf("the step %s does not belong to the saga %s", s.spec.name, f.Definition.Name)
	case f.Step == s.spec.name && f.Undo:
		return nil
	case !f.Definition.Plan.Before(s.spec.name, f.Step):
		return fmt.Errorf("the step %s reads %s, which does not come before it: name it in After", f.Step,
			s.spec.name)
	}
	return nil
}

func (s *Step[In, Out]) read(r Run[In], occurrence string) (out Out, ok bool) {
	if r.facts == nil {
		return out, false
	}
	if st, _ := r.facts.Definition.Plan.Step(s.spec.name); !st.Each {
		occurrence = ""
	}
	run, there := r.facts.State.Run(s.spec.name, occurrence)
	if !there || run.Phase != plan.IsDone && run.Phase != plan.Undo && run.Phase != plan.Undoing &&
		run.Phase != plan.Undone || run.Output == nil {
		return out, false
	}
	if err := json.Unmarshal(run.Output, &out); err != nil {
		r.fail(fmt.Errorf("read the output of the step %s: %w", s.spec.name, err))
		return out, false
	}
	return out, true
}

func (r Run[In]) fail(err error) {
	if r.facts != nil {
		r.facts.Fail(err)
	}
}
