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

// MaxEntities limits the entities of a Lock.
const MaxEntities = 1000

// Lock returns a step that ends when the saga has locked all its entities. No other saga gets one of these
// entities until this saga has ended, or has undone all steps after the Lock. Sagas that wait for an entity
// get it in the order of arrival.
//
// This is a semantic lock: it holds no transaction open and locks no rows. Other code, such as a handler of
// an inbox, does not wait for it: such code must check with Held.
//
// A saga gets all its entities at the same time. It has at most one Lock, including the Locks of its
// children. So two sagas never deadlock. The entities of a child stay locked until the parent ends.
//
// The engine calls entities once, and again only after an error. The function must depend only on r. Space
// and key of an entity are texts of 1 to 255 bytes. If there are no entities, the step ends immediately.
// After Timeout the step fails; after the pivot it gets stuck instead, and keeps its place in the queues. By
// default there is no timeout.
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
		return skald.Permanent(fmt.Errorf("%d entities are named, at most %d are possible: name their owner "+
			"instead, for example the order and not its lines", len(es), MaxEntities))
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

// Holder is a saga that holds an entity. A child holds it also for its parent and siblings.
type Holder struct {
	store.Lock           // the entity
	Name, Key  string    // name and key of the saga
	Since      time.Time // time at which the saga joined the queue
}

// Held returns the holders of the entities. It reads in tx, a transaction of the caller. A saga may hold an
// entity while it waits for its other entities. A handler that must not change a held entity returns
// skald.RetryAfter.
//
// At READ COMMITTED, the result stays true until tx ends if tx has locked the entities: by inbox
// Transaction.Entities, by package httpidem, or by lock.In. At a higher isolation level, the result may
// contain a saga that released the entity after tx began.
func Held[TTx any](ctx context.Context, e *Engine[TTx], tx TTx, entities ...store.Lock) ([]Holder, error) {
	if err := validEntities(entities); err != nil {
		return nil, fmt.Errorf("read the holders of entities: %w", err)
	}
	hs, err := e.db.EntityHolders(ctx, tx, entities...)
	out := make([]Holder, len(hs))
	for i, h := range hs {
		out[i] = Holder{store.Lock{Space: h.Space, Key: h.Key}, h.Saga.Name, h.Saga.Key, h.Since}
	}
	return out, err
}
