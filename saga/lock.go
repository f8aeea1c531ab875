package saga

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/saga/engine"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

// MaxEntities is how many entities a Lock may name.
const MaxEntities = 1000

// Lock is a step that ends once entities are the saga's own: no other saga has one of them until this one has
// ended, or has undone all that came after the Lock. It is a semantic lock: rows stay free for whoever does
// not ask, and no transaction is open meanwhile. Sagas that wait for an entity have it in the order in which
// they came. All entities are taken at once, and a saga has one Lock at most, its children's with it: so no
// two sagas wait for each other. What a child has locked its parent keeps until its own end.
//
// Entities is asked once, unless that fails, and must depend on nothing but r. Of each, space and key are
// texts of 1 to 255 bytes; none: there is nothing to wait for. With a Timeout the step fails when it has
// waited for so long (past the pivot it is stuck then, and keeps its place); by default it waits as long as
// the saga lasts. An inbox, or a request, that locks the same entities for its transaction does not wait for
// the saga: it asks with Held.
func Lock[In any](name string, entities func(r Run[In]) []store.Lock, opts ...Option) *Step[In, struct{}] {
	b := engine.StepBody{Lock: func(f *engine.Facts) ([]store.Lock, error) {
		r, err := runOf[In](f)
		if err != nil {
			return nil, err
		}
		es := entities(r)
		return es, f.Fault(validEntities(es))
	}}
	s := newStep[In, struct{}](name, plan.Lock, b, true, opts)
	if entities == nil {
		s.spec.fault("it has no function")
	}
	return s
}

func validEntities(es []store.Lock) error {
	if len(es) > MaxEntities {
		return skald.Permanent(fmt.Errorf("%d entities are named, at most %d are possible: name what they "+
			"belong to instead, the order and not its lines", len(es), MaxEntities))
	}
	var faults []error
	for _, e := range es {
		if err := errors.Join(validText("space of an entity", e.Space),
			validText("key of an entity", e.Key)); err != nil {
			faults = append(faults, err)
		}
		if len(faults) == 5 {
			break
		}
	}
	if len(faults) > 0 {
		return skald.Permanent(errors.Join(faults...))
	}
	return nil
}

// Holder is a saga that an entity is kept for: a child, for the whole family.
type Holder struct {
	store.Lock           // the entity
	Name, Key  string    // of the saga
	Since      time.Time // when it came into the line
}

// Held tells, in a transaction of the caller's, which of entities a saga keeps for itself: one that waits for
// others of its entities, too. At READ COMMITTED the answer holds until the transaction ends where the caller
// has them locked: an inbox whose Transaction.Entities names them, a request of httpidem's that does,
// lock.In. Above that it may name one that has left since the transaction began. A handler that must not
// change them returns skald.RetryAfter.
func Held[TTx any](ctx context.Context, e *Engine[TTx], tx TTx, entities ...store.Lock) ([]Holder, error) {
	if err := validEntities(entities); err != nil {
		return nil, fmt.Errorf("ask who holds entities: %w", err)
	}
	hs, err := e.db.EntityHolders(ctx, tx, entities...)
	out := make([]Holder, len(hs))
	for i, h := range hs {
		out[i] = Holder{store.Lock{Space: h.Space, Key: h.Key}, h.Saga.Name, h.Saga.Key, h.Since}
	}
	return out, err
}
