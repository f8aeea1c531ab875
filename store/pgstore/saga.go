package pgstore

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// StartSagas writes new sagas and reads existing ones: one round trip, or two if a saga exists already.
func (s *Store) StartSagas(ctx context.Context, tx pgx.Tx, ss ...store.Saga) ([]store.Saga, []bool, error) {
	return s.sagas.Start(ss, s.asks(ctx, tx), s.sends(ctx, tx))
}

// LockSagas reads and locks sagas: one round trip.
func (s *Store) LockSagas(ctx context.Context, tx pgx.Tx, refs ...store.SagaRef) ([]store.Saga, error) {
	return s.sagas.Lock(refs, s.asks(ctx, tx), s.sends(ctx, tx))
}

func (*Store) asks(ctx context.Context, tx pgx.Tx) func(sqlexec.Call) sqlexec.Scanner {
	return func(c sqlexec.Call) sqlexec.Scanner { return tx.QueryRow(ctx, c.SQL, c.Args...) }
}

func (*Store) sends(ctx context.Context, tx pgx.Tx) func([]sqlexec.Call) error {
	return func(calls []sqlexec.Call) error {
		return lentOf(tx).runAlone(func() error { return sqlexec.SendIn(ctx, tx, calls) })
	}
}

// StartSagas writes new sagas and reads existing ones: one round trip, and another for each existing saga.
func (s *SQLStore) StartSagas(ctx context.Context, tx *sql.Tx,
	ss ...store.Saga) ([]store.Saga, []bool, error) {
	return s.sagas.Start(ss, s.asks(ctx, tx), s.sends(ctx, tx))
}

// LockSagas reads and locks sagas: one round trip.
func (s *SQLStore) LockSagas(ctx context.Context, tx *sql.Tx, refs ...store.SagaRef) ([]store.Saga, error) {
	return s.sagas.Lock(refs, s.asks(ctx, tx), s.sends(ctx, tx))
}

func (*SQLStore) asks(ctx context.Context, tx *sql.Tx) func(sqlexec.Call) sqlexec.Scanner {
	return func(c sqlexec.Call) sqlexec.Scanner { return tx.QueryRowContext(ctx, c.SQL, c.Args...) }
}

func (s *SQLStore) sends(ctx context.Context, tx *sql.Tx) func([]sqlexec.Call) error {
	return func(calls []sqlexec.Call) error {
		for _, c := range calls {
			if err := s.runOne(ctx, tx, c); err != nil {
				return err
			}
		}
		return nil
	}
}
