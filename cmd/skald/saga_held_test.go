package main_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
)

// A releasing store ends the rival's transaction once each saga was tried once.
type releasing struct {
	store.Driver[*sql.Tx]
	after int
	end   func()
}

func (r *releasing) Apply(ctx context.Context, es ...store.Effect) ([]bool, error) {
	if r.after--; r.after < 0 && r.end != nil {
		r.end()
		r.end = nil
	}
	return r.Driver.Apply(ctx, es...)
}

// What a step holds is tried again once the others are changed: on SQLite it holds all of them.
func TestHeldSagaIsWaitedFor(t *testing.T) {
	onEachStore(t, func(t *testing.T, fresh func(*testing.T) *bed) {
		b := fresh(t).migrate()
		b.sagas("o-1", "o-2", "o-3")
		list, err := store.ListSagas(t.Context(), b.s, store.SagaQuery{Name: "order", Key: "o-1"})
		must(t, err)
		step, err := b.s.Begin(t.Context(), store.Intake{Sagas: []store.SagaRef{
			{Name: "order", Key: "o-1", Version: list[0].Version}}})
		must(t, err)
		r, err := operate.ChangeSagas(t.Context(),
			&releasing{b.s, 3, func() { _, _ = step.Rollback(t.Context()) }},
			operate.SagaSelection{Name: "order"}, operate.SagaChange{Verb: operate.PauseSaga},
			operate.Order{Author: "ann", Reason: "an incident"})
		must(t, err)
		if n := b.count("skald_saga WHERE paused"); r.Done != 3 || n != 3 {
			t.Errorf("%d are paused: %+v", n, r)
		}
	})
}

// sagas starts sagas that wait for approval, with an engine that is gone then.
func (b *bed) sagas(keys ...string) {
	b.t.Helper()
	d := saga.New("order", &saga.Options[string]{Key: func(s string) string { return s }},
		saga.Wait[string]("approve", saga.Signal[bool]{Name: "approved"}))
	e, err := saga.NewEngine(b.s, nil, d)
	must(b.t, err)
	for _, key := range keys {
		tx, err := b.db.BeginTx(b.t.Context(), nil)
		must(b.t, err)
		_, err = saga.Bind(e, d).Start(b.t.Context(), tx, key)
		must(b.t, err)
		must(b.t, tx.Commit())
	}
	for busy := true; busy; {
		busy, err = e.Step(b.t.Context())
		must(b.t, err)
	}
}
