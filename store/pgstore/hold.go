package pgstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/pgrun"
)

// holding are the calls of HoldEntities.
func (c *core) holding(h store.EntityHold, first *bool) ([]pgrun.Call, error) {
	hold, err := c.sagas.HoldEntities(h, first)
	return append(c.entities.Take(nil, h.Entities, make([]int64, len(h.Entities))), hold), err
}

// HoldEntities has a saga stand in line for entities: one round trip.
func (s *Store) HoldEntities(ctx context.Context, tx pgx.Tx, h store.EntityHold) (first bool, err error) {
	calls, err := s.holding(h, &first)
	if err == nil {
		err = pgrun.SendIn(ctx, tx, calls)
	}
	if err != nil {
		return false, fmt.Errorf("hold entities: %w", s.pg.Beginning(err))
	}
	return first, nil
}

// InLine tells how a holder stands: one round trip.
func (s *Store) InLine(ctx context.Context, tx pgx.Tx, holder string) (stands, first bool, err error) {
	calls, err := s.sagas.InLine(holder, &stands, &first)
	if err == nil {
		err = pgrun.SendIn(ctx, tx, calls)
	}
	if err != nil {
		return false, false, fmt.Errorf("look in line: %w", s.pg.Beginning(err))
	}
	return stands, first, nil
}

// FreeEntities has a holder leave all lines: one round trip.
func (s *Store) FreeEntities(ctx context.Context, tx pgx.Tx, holder string) error {
	calls, err := s.sagas.FreeEntities(holder)
	if err == nil {
		err = pgrun.SendIn(ctx, tx, calls)
	}
	if err != nil {
		return fmt.Errorf("free entities: %w", s.pg.Beginning(err))
	}
	return nil
}

// EntityHolders tells who holds entities: one round trip.
func (s *Store) EntityHolders(ctx context.Context, tx pgx.Tx, es ...store.Lock) ([]store.Hold, error) {
	list, out, err := s.sagas.EntityHolders(es)
	if err == nil {
		err = pgrun.SendIn(ctx, tx, []pgrun.Call{list})
	}
	if err != nil {
		return nil, fmt.Errorf("look who holds entities: %w", s.pg.Own(err))
	}
	return *out, nil
}

// HoldEntities has a saga stand in line for entities, statement by statement.
func (s *SQLStore) HoldEntities(ctx context.Context, tx *sql.Tx, h store.EntityHold) (first bool, err error) {
	calls, err := s.holding(h, &first)
	if err == nil {
		err = s.each(ctx, tx, calls)
	}
	if err != nil {
		return false, fmt.Errorf("hold entities: %w", s.pg.Beginning(err))
	}
	return first, nil
}

// InLine tells how a holder stands: two round trips.
func (s *SQLStore) InLine(ctx context.Context, tx *sql.Tx, holder string) (stands, first bool, err error) {
	calls, err := s.sagas.InLine(holder, &stands, &first)
	if err == nil {
		err = s.each(ctx, tx, calls)
	}
	if err != nil {
		return false, false, fmt.Errorf("look in line: %w", s.pg.Beginning(err))
	}
	return stands, first, nil
}

// FreeEntities has a holder leave all lines: two round trips.
func (s *SQLStore) FreeEntities(ctx context.Context, tx *sql.Tx, holder string) error {
	calls, err := s.sagas.FreeEntities(holder)
	if err == nil {
		err = s.each(ctx, tx, calls)
	}
	if err != nil {
		return fmt.Errorf("free entities: %w", s.pg.Beginning(err))
	}
	return nil
}

// EntityHolders tells who holds entities: one round trip.
func (s *SQLStore) EntityHolders(ctx context.Context, tx *sql.Tx, es ...store.Lock) ([]store.Hold, error) {
	list, out, err := s.sagas.EntityHolders(es)
	if err == nil {
		err = s.one(ctx, tx, list)
	}
	if err != nil {
		return nil, fmt.Errorf("look who holds entities: %w", s.pg.Own(err))
	}
	return *out, nil
}

// each carries out calls one after the other.
func (s *SQLStore) each(ctx context.Context, tx *sql.Tx, calls []pgrun.Call) error {
	for _, c := range calls {
		if err := s.one(ctx, tx, c); err != nil {
			return err
		}
	}
	return nil
}
