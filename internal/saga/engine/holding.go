// This file locks entities for sagas, for steps of the kind saga.Lock. The root of a family of sagas holds
// the entities for the whole family, so the locks of a child last until the end of the root.

package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
)

// lookAgain is the interval at which a waiting saga checks its entities. A release of an entity also wakes
// the saga, but not while another step of it is in a transaction.
const lookAgain = 30 * time.Second

// holdDB is the part of the database that locks entities.
type holdDB[TTx any] interface {
	LockSagas(ctx context.Context, tx TTx, refs ...store.SagaRef) ([]store.Saga, error)
	HoldEntities(ctx context.Context, tx TTx, h store.EntityHold) (first bool, err error)
	QueueState(ctx context.Context, tx TTx, holder string) (queued, first bool, err error)
	FreeEntities(ctx context.Context, tx TTx, holder string) error
}

// holdStep performs the action a of a Lock step in tx, for these entities. The argument now is the time of
// the database's clock.
func holdStep[TTx any](ctx context.Context, db holdDB[TTx], tx TTx, s *saga, a plan.Action,
	entities []store.Lock, now time.Time) (e plan.Event, err error) {
	switch a.Verb {
	case plan.UndoStep:
		return plan.Event{What: plan.UndoDone}, releaseEntities(ctx, db, tx, holder(s))
	case plan.SettleStep:
		return plan.Event{What: plan.Rejected}, releaseEntities(ctx, db, tx, holder(s))
	}
	e.What = plan.Succeeded
	queued, first := false, false
	if a.Sent {
		queued, first, err = db.QueueState(ctx, tx, holder(s))
	}
	if err == nil && !queued {
		first, err = enter(ctx, db, tx, s, entities)
	}
	if err != nil || first {
		return e, err
	}
	e.What, e.Until = plan.Sent, now.Add(lookAgain)
	if run, _ := s.State.Run(a.Step, a.Occurrence); run.Memo == nil {
		node, _ := s.Def.Plan.Step(a.Step)
		e.Memo = plan.LockTimeout(node.Try, now)
	}
	return e, nil
}

// enter adds the saga to the queues of its entities. It returns first=true if the saga is the first in all
// queues, so that it has the entities, or if es is empty.
func enter[TTx any](ctx context.Context, db holdDB[TTx], tx TTx, s *saga, es []store.Lock) (first bool,
	err error) {
	if len(es) == 0 {
		return true, nil
	}
	return db.HoldEntities(ctx, tx, store.EntityHold{Holder: holder(s), Saga: sagarow.Ref(s.Row),
		Entities: es})
}

// holder returns the id under which a saga locks entities: the id of the root of its family.
func holder(s *saga) string {
	if top := s.Origin.Top(); top != nil {
		return top.ID
	}
	return s.Row.ID
}

// end releases the entities of a saga that ends. Only the root releases them. But if an operator ended the
// root earlier, the child releases them.
func end[TTx any](ctx context.Context, db holdDB[TTx], tx TTx, s *saga) error {
	top := s.Origin.Top()
	if top == nil {
		return releaseEntities(ctx, db, tx, s.Row.ID)
	}
	tops, err := db.LockSagas(ctx, tx, store.SagaRef{Name: top.Name, Key: top.Key})
	if err != nil {
		return fmt.Errorf("lock the root of the family: %w", err)
	}
	if tops[0].Name != "" && tops[0].ID == top.ID && tops[0].Ended.IsZero() {
		return nil
	}
	return releaseEntities(ctx, db, tx, top.ID)
}

// releaseEntities removes a holder from the queues of all its entities.
func releaseEntities[TTx any](ctx context.Context, db holdDB[TTx], tx TTx, holder string) error {
	if err := db.FreeEntities(ctx, tx, holder); err != nil {
		return fmt.Errorf("release entities: %w", err)
	}
	return nil
}
