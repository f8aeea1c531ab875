package sqlitestore

import (
	"context"
	"database/sql"

	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// wakes tells of an effect that somebody waits for.
func wakes(e *store.Effect) bool { return len(e.Rows) > 0 || e.Saga != nil }

// StartSaga writes a new saga, or reads the one that is there.
func (s *Store) StartSaga(ctx context.Context, tx *sql.Tx,
	start store.Saga) (stored store.Saga, fresh bool, err error) {
	if err := sagarow.Check(&start); err != nil {
		return stored, false, err
	}
	x, u, err := s.within(ctx, tx)
	if err == nil {
		stored, fresh, err = sagaStart(ctx, x, &start)
	}
	if err != nil {
		return store.Saga{}, false, sqlexec.Failed("start a saga", err)
	}
	if fresh {
		s.moved(u)
	}
	return stored, fresh, nil
}

// moved wakes whoever waits for sagas: at once in a transaction of the caller's.
func (s *Store) moved(u *unit) {
	if u != nil {
		u.wrote.Store(true)
		return
	}
	s.run.Wake()
}

// LockSaga reads a saga. SQLite has one writer: nothing need be locked but the file, for which the
// transaction writes.
func (s *Store) LockSaga(ctx context.Context, tx *sql.Tx, name,
	key string) (stored store.Saga, there bool, err error) {
	x, _, err := s.within(ctx, tx)
	if err == nil {
		stored, there, err = lock(ctx, x, name, key)
	}
	if err != nil {
		return store.Saga{}, false, sqlexec.Failed("lock a saga", err)
	}
	return stored, there, nil
}

// ClaimSagas leases sagas that are due; it writes nothing where none is.
func (s *Store) ClaimSagas(ctx context.Context, c store.ClaimSagas) (store.ClaimedSagas, error) {
	return s.sagas.Claim(ctx, c)
}

// NoteSagaDefinitions stores definitions, in one transaction.
func (s *Store) NoteSagaDefinitions(ctx context.Context, ds []store.SagaDefinition) error {
	return s.sagas.NoteDefinitions(ctx, ds)
}

var _ store.Tracker[*sql.Tx] = (*Store)(nil)

// LockTracked reads the rows of sagas, or makes them. SQLite has one writer: nothing else need be locked.
func (s *Store) LockTracked(ctx context.Context, tx *sql.Tx, flow string,
	keys ...string) (rows []store.Tracked, err error) {
	x, _, err := s.within(ctx, tx)
	if err == nil {
		rows, err = lockTracked(ctx, x, flow, keys...)
	}
	return rows, sqlexec.Failed("lock tracked sagas", err)
}

// SaveTracked writes rows that LockTracked locked.
func (s *Store) SaveTracked(ctx context.Context, tx *sql.Tx, rows ...store.Tracked) error {
	x, _, err := s.within(ctx, tx)
	if err == nil {
		err = saveTracked(ctx, x, rows...)
	}
	return sqlexec.Failed("save tracked sagas", err)
}
