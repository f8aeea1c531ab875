package pgstore

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// StartSaga writes a new saga, or reads the one that is there: a round trip, two for the latter.
func (s *Store) StartSaga(ctx context.Context, tx pgx.Tx, start store.Saga) (store.Saga, bool, error) {
	return s.sagas.Start(&start,
		func(c sqlexec.Call) sqlexec.Scanner { return tx.QueryRow(ctx, c.SQL, c.Args...) })
}

// LockSaga reads a saga and locks it: a round trip.
func (s *Store) LockSaga(ctx context.Context, tx pgx.Tx, name, key string) (store.Saga, bool, error) {
	return s.sagas.Lock(name, key,
		func(c sqlexec.Call) sqlexec.Scanner { return tx.QueryRow(ctx, c.SQL, c.Args...) })
}

// StartSaga writes a new saga, or reads the one that is there: a round trip, two for the latter.
func (s *SQLStore) StartSaga(ctx context.Context, tx *sql.Tx, start store.Saga) (store.Saga, bool, error) {
	return s.sagas.Start(&start,
		func(c sqlexec.Call) sqlexec.Scanner { return tx.QueryRowContext(ctx, c.SQL, c.Args...) })
}

// LockSaga reads a saga and locks it: a round trip.
func (s *SQLStore) LockSaga(ctx context.Context, tx *sql.Tx, name, key string) (store.Saga, bool, error) {
	return s.sagas.Lock(name, key,
		func(c sqlexec.Call) sqlexec.Scanner { return tx.QueryRowContext(ctx, c.SQL, c.Args...) })
}

// ClaimSagas leases sagas that are due: one round trip, which writes nothing where none is.
func (c *core) ClaimSagas(ctx context.Context, ask store.ClaimSagas) (store.ClaimedSagas, error) {
	return c.sagas.Claim(ctx, ask)
}

// NoteSagaDefinitions stores definitions: one statement.
func (c *core) NoteSagaDefinitions(ctx context.Context, ds []store.SagaDefinition) error {
	return c.sagas.NoteDefinitions(ctx, ds)
}
