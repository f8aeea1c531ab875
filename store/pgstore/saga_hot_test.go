package pgstore

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/store"
)

// TestSagaMovesAreHot checks that the move of a step changes no index: it is a HOT update, except the move
// that ends a saga.
func TestSagaMovesAreHot(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s, ctx := b.store(t), context.Background()
	start := store.Saga{Name: "order", Key: "o-1", ID: "1", Hash: "h", Input: "{}", State: "{}", Session: "a",
		Lease:      time.Minute,
		SagaStatus: store.SagaStatus{Status: "running"}}
	err := pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		_, _, err := s.StartSagas(ctx, tx, start)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	move := store.SagaUpdate{SagaRef: store.SagaRef{Name: "order", Key: "o-1", Version: 1},
		State: `{"status":"running"}`, SagaStatus: start.SagaStatus}
	move.Step, move.Error, move.Failed = "charge", "no answer", 1
	for _, want := range []int{1, 1, 0} {
		if move.Version == 3 {
			move.Status, move.Final = "done", true
		}
		hot := 0
		err := pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
			before := 0 // changes that the session has not reported yet count, too
			const updates = "SELECT pg_stat_get_xact_tuples_hot_updated($1::regclass)"
			if err := tx.QueryRow(ctx, updates, b.q("{skald_saga}")).Scan(&before); err != nil {
				return err
			}
			if err := s.Write(ctx, tx, store.Effect{Saga: &move}); err != nil {
				return err
			}
			err := tx.QueryRow(ctx, updates, b.q("{skald_saga}")).Scan(&hot)
			hot -= before
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if hot != want {
			t.Errorf("the move of version %d makes %d HOT updates, want %d", move.Version, hot, want)
		}
		move.Version++
	}
}
