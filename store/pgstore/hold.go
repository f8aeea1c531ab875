package pgstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// holdCalls returns the calls of HoldEntities.
func (c *core) holdCalls(h store.EntityHold, front *bool) ([]sqlexec.Call, error) {
	hold, err := c.sagas.HoldEntities(h, front)
	return append(c.entities.Take(nil, h.Entities, make([]int64, len(h.Entities))), hold), err
}

// HoldEntities adds a saga to the queue of each entity: one round trip. It returns true if the saga is at
// the front of all queues.
func (s *Store) HoldEntities(ctx context.Context, tx pgx.Tx, h store.EntityHold) (front bool, err error) {
	calls, err := s.holdCalls(h, &front)
	err = s.runQueueCalls(ctx, tx, "hold entities", calls, err)
	return front, err
}

// QueueState reports whether holder is in a queue, and whether it is at the front of all its queues: one
// round trip.
func (s *Store) QueueState(ctx context.Context, tx pgx.Tx, holder string) (queued, front bool, err error) {
	calls, err := s.sagas.QueueState(holder, &queued, &front)
	err = s.runQueueCalls(ctx, tx, "read places in line", calls, err)
	return queued, front, err
}

// FreeEntities removes a holder from all queues: one round trip.
func (s *Store) FreeEntities(ctx context.Context, tx pgx.Tx, holder string) error {
	calls, err := s.sagas.FreeEntities(holder)
	return s.runQueueCalls(ctx, tx, "free entities", calls, err)
}

// EntityHolders returns the holders of entities: one round trip.
func (s *Store) EntityHolders(ctx context.Context, tx pgx.Tx, es ...store.Lock) ([]store.Hold, error) {
	list, out, err := s.sagas.EntityHolders(es)
	err = s.runQueueCalls(ctx, tx, "list the holders of entities", []sqlexec.Call{list}, err)
	return *out, err
}

// runQueueCalls runs calls on the queues of entities in a transaction of the caller: one round trip. If the
// calls could not be built, err is the reason. runQueueCalls then only adds act to err.
func (s *Store) runQueueCalls(ctx context.Context, tx pgx.Tx, act string, calls []sqlexec.Call,
	err error) error {
	if err == nil {
		err = sqlexec.SendIn(ctx, tx, calls)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", act, s.pg.Beginning(err))
	}
	return nil
}

// HoldEntities adds a saga to the queue of each entity: one round trip for each statement.
func (s *SQLStore) HoldEntities(ctx context.Context, tx *sql.Tx, h store.EntityHold) (front bool, err error) {
	calls, err := s.holdCalls(h, &front)
	err = s.runQueueCalls(ctx, tx, "hold entities", calls, err)
	return front, err
}

// QueueState does as the Store's: two round trips.
func (s *SQLStore) QueueState(ctx context.Context, tx *sql.Tx, holder string) (queued, front bool,
	err error) {
	calls, err := s.sagas.QueueState(holder, &queued, &front)
	err = s.runQueueCalls(ctx, tx, "read places in line", calls, err)
	return queued, front, err
}

// FreeEntities removes a holder from all queues: two round trips.
func (s *SQLStore) FreeEntities(ctx context.Context, tx *sql.Tx, holder string) error {
	calls, err := s.sagas.FreeEntities(holder)
	return s.runQueueCalls(ctx, tx, "free entities", calls, err)
}

// EntityHolders returns the holders of entities: one round trip.
func (s *SQLStore) EntityHolders(ctx context.Context, tx *sql.Tx, es ...store.Lock) ([]store.Hold, error) {
	list, out, err := s.sagas.EntityHolders(es)
	err = s.runQueueCalls(ctx, tx, "list the holders of entities", []sqlexec.Call{list}, err)
	return *out, err
}

// runQueueCalls does as the Store's: one round trip for each call.
func (s *SQLStore) runQueueCalls(ctx context.Context, tx *sql.Tx, act string, calls []sqlexec.Call,
	err error) error {
	for i := 0; err == nil && i < len(calls); i++ {
		err = s.runOne(ctx, tx, calls[i])
	}
	if err != nil {
		return fmt.Errorf("%s: %w", act, s.pg.Beginning(err))
	}
	return nil
}
