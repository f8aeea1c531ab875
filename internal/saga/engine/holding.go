// This file has sagas hold entities. A saga holds them for its whole family: what a child has locked
// its parent keeps until its own end.

package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
)

// lookAgain is how often a saga that waits for entities looks whether it has them, beside being woken: it is
// not where another step of it is in a transaction just then.
const lookAgain = 30 * time.Second

// A holdDB is what is needed of the store.
type holdDB[TTx any] interface {
	LockSagas(ctx context.Context, tx TTx, refs ...store.SagaRef) ([]store.Saga, error)
	HoldEntities(ctx context.Context, tx TTx, h store.EntityHold) (first bool, err error)
	InLine(ctx context.Context, tx TTx, holder string) (stands, first bool, err error)
	FreeEntities(ctx context.Context, tx TTx, holder string) error
}

// holdStep does in tx what an action of a Lock asks for, at a time of the engine's clock.
func holdStep[TTx any](ctx context.Context, db holdDB[TTx], tx TTx, s *saga, a plan.Action, f *Facts,
	now time.Time) (e plan.Event, err error) {
	switch a.Verb {
	case plan.UndoStep:
		return plan.Event{What: plan.UndoDone}, free(ctx, db, tx, holder(s))
	case plan.SettleStep:
		return plan.Event{What: plan.Rejected}, free(ctx, db, tx, holder(s))
	}
	e.What = plan.Succeeded
	stands, first := false, false
	if a.Sent {
		stands, first, err = db.InLine(ctx, tx, holder(s))
	}
	if err == nil && !stands {
		first, err = enter(ctx, db, tx, s, a, f)
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

// enter has the saga stand in line. First: it has its entities at once, or needs none.
func enter[TTx any](ctx context.Context, db holdDB[TTx], tx TTx, s *saga, a plan.Action,
	f *Facts) (first bool, err error) {
	step, _ := s.Def.Step(a.Step)
	es, err := step.Lock(f)
	if err != nil || len(es) == 0 {
		return err == nil, err
	}
	return db.HoldEntities(ctx, tx, store.EntityHold{Holder: holder(s), Saga: sagarow.Ref(s.Row),
		Entities: es})
}

// holder is who holds what a saga locks: the top of its family.
func holder(s *saga) string {
	if top := s.Origin.Top(); top != nil {
		return top.ID
	}
	return s.Row.ID
}

// end has a saga that ends give up what it holds. A child holds nothing itself; where an operator has ended
// the top of its family before it, nobody else gives that up.
func end[TTx any](ctx context.Context, db holdDB[TTx], tx TTx, s *saga) error {
	top := s.Origin.Top()
	if top == nil {
		return free(ctx, db, tx, s.Row.ID)
	}
	tops, err := db.LockSagas(ctx, tx, store.SagaRef{Name: top.Name, Key: top.Key})
	if err != nil {
		return fmt.Errorf("lock the saga at the top of the family: %w", err)
	}
	if tops[0].Name != "" && tops[0].ID == top.ID && tops[0].Ended.IsZero() {
		return nil
	}
	return free(ctx, db, tx, top.ID)
}

// free has a saga give up the entities that it holds, and its places in line.
func free[TTx any](ctx context.Context, db holdDB[TTx], tx TTx, holder string) error {
	if err := db.FreeEntities(ctx, tx, holder); err != nil {
		return fmt.Errorf("give up entities: %w", err)
	}
	return nil
}
