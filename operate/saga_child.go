package operate

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
)

// child is a saga that a step waits for.
type child struct {
	key    string
	row    *store.Saga // nil if it was not found or not read
	looked bool        // false if it was not read because of maxChildren
}

const maxChildren = 20 // limits the children that readChildren reads

// readChildren reads the sagas that steps of r wait for. The keys of r.children are the indexes of the runs.
func (r *SagaRead) readChildren(ctx context.Context, db store.Lister) error {
	if r.plan == nil {
		return nil
	}
	r.children = map[int]child{}
	for i := range r.state.Runs {
		run := &r.state.Runs[i]
		step, _ := r.plan.Step(run.Step)
		var of struct{ Key string }
		if step.Kind != plan.Child || run.Phase != plan.Waiting && run.Phase != plan.Undoing ||
			json.Unmarshal(run.Memo, &of) != nil || of.Key == "" {
			continue
		}
		c := child{key: of.Key, looked: len(r.children) < maxChildren}
		if c.looked {
			list, err := store.ListSagas(ctx, db, store.SagaQuery{Key: of.Key, Light: true})
			if err != nil {
				return err
			}
			for j := range list {
				if r.started(run, &list[j]) {
					c.row = &list[j]
				}
			}
		}
		r.children[i] = c
	}
	return nil
}

// started reports whether the run of the saga r has started the saga s.
func (r *SagaRead) started(run *plan.Run, s *store.Saga) bool {
	o, err := sagarow.OriginOf(*s)
	return err == nil && o.Parent != nil && o.Parent.ID == r.row.ID && o.Parent.Step == run.Born() &&
		o.Parent.Occurrence == run.Occurrence
}

// explain describes the state of the child, with a command that shows more. The text begins with a space.
func (c child) explain(at string) string {
	s := c.row
	switch {
	case s == nil && c.looked:
		return fmt.Sprintf(" Its child with the key %s does not exist.", c.key)
	case s == nil:
		return fmt.Sprintf(" Its child has the key %s.", c.key)
	}
	return fmt.Sprintf(" Its child %s %s is %s %s", s.Name, s.Key, sagaStateText(s), explainCommand(s, at))
}
