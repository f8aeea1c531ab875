package pgstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// holding returns the calls of HoldEntities.
func (c *core) holding(h store.EntityHold, first *bool) ([]sqlexec.Call, error) {
	hold, err := c.sagas.HoldEntities(h, first)
	return append(c.entities.Take(nil, h.Entities, make([]int64, len(h.Entities))), hold), err
}

// HoldEntities adds a saga to the queue of each entity: one round trip. first reports whether the saga is at
// the front of all queues.
func (s *Store) HoldEntities(ctx context.Context, tx pgx.Tx, h store.EntityHold) (first bool, err error) {
	calls, err := s.holding(h, &first)
	err = s.line(ctx, tx, "hold entities", calls, err)
	return first, err
}

// QueueState reports whether holder is in a queue, and whether it is at the front of all its queues: one
// round trip.
func (s *Store) QueueState(ctx context.Context, tx pgx.Tx, holder string) (queued, first bool, err error) {
	calls, err := s.sagas.QueueState(holder, &queued, &first)
	err = s.line(ctx, tx, "read places in line", calls, err)
	return queued, first, err
}

// FreeEntities removes a holder from all queues: one round trip.
func (s *Store) FreeEntities(ctx context.Context, tx pgx.Tx, holder string) error {
	calls, err := s.sagas.FreeEntities(holder)
	return s.line(ctx, tx, "free entities", calls, err)
}

// EntityHolders returns the holders of entities: one round trip.
func (s *Store) EntityHolders(ctx context.Context, tx pgx.Tx, es ...store.Lock) ([]store.Hold, error) {
	list, out, err := s.sagas.EntityHolders(es)
	err = s.line(ctx, tx, "list the holders of entities", []sqlexec.Call{list}, err)
	return *out, err
}

// line runs calls on the queues of entities in a transaction of the caller: one round trip. A non-nil err
// comes from building the calls; line adds act to it.
func (s *Store) line(ctx context.Context, tx pgx.Tx, act string, calls []sqlexec.Call, err error) error {
	if err == nil {
		err = sqlexec.SendIn(ctx, tx, calls)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", act, s.pg.Beginning(err))
	}
	return nil
}

// HoldEntities adds a saga to the queue of each entity: one round trip for each statement.
func (s *SQLStore) HoldEntities(ctx context.Context, tx *sql.Tx, h store.EntityHold) (first bool, err error) {
	calls, err := s.holding(h, &first)
	err = s.line(ctx, tx, "hold entities", calls, err)
	return first, err
}

// QueueState does as the Store's: two round trips.
func (s *SQLStore) QueueState(ctx context.Context, tx *sql.Tx, holder string) (queued, first bool,
	err error) {
	calls, err := s.sagas.QueueState(holder, &queued, &first)
	err = s.line(ctx, tx, "read places in line", calls, err)
	return queued, first, err
}

// FreeEntities removes a holder from all queues: two round trips.
func (s *SQLStore) FreeEntities(ctx context.Context, tx *sql.Tx, holder string) error {
	calls, err := s.sagas.FreeEntities(holder)
	return s.line(ctx, tx, "free entities", calls, err)
}

// EntityHolders returns the holders of entities: one round trip.
func (s *SQLStore) EntityHolders(ctx context.Context, tx *sql.Tx, es ...store.Lock) ([]store.Hold, error) {
	list, out, err := s.sagas.EntityHolders(es)
	err = s.line(ctx, tx, "list the holders of entities", []sqlexec.Call{list}, err)
	return *out, err
}

// line does as the Store's: one round trip for each call.
func (s *SQLStore) line(ctx context.Context, tx *sql.Tx, act string, calls []sqlexec.Call, err error) error {
	for i := 0; err == nil && i < len(calls); i++ {
		err = s.one(ctx, tx, calls[i])
	}
	if err != nil {
		return fmt.Errorf("%s: %w", act, s.pg.Beginning(err))
	}
	return nil
}
