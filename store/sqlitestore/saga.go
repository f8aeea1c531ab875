package sqlitestore

import (
	"context"
	"database/sql"
	"slices"

	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// wakes reports whether e has outbox rows or moves a saga, so that relays and engines must wake.
func wakes(e *store.Effect) bool { return len(e.Rows) > 0 || e.Saga != nil }

// StartSagas writes new sagas and reads existing ones. The element of fresh is true for a new saga.
func (s *Store) StartSagas(ctx context.Context, tx *sql.Tx,
	ss ...store.Saga) (stored []store.Saga, fresh []bool, err error) {
	if err := sagarow.CheckStarts(ss); err != nil {
		return nil, nil, err
	}
	x, u, err := s.sessionOf(ctx, tx)
	stored, fresh = make([]store.Saga, len(ss)), make([]bool, len(ss))
	for i := 0; i < len(ss) && err == nil; i++ {
		stored[i], fresh[i], err = sagaStart(ctx, x, &ss[i])
	}
	if err != nil {
		return nil, nil, sqlexec.Failed("start sagas", err)
	}
	if slices.Contains(fresh, true) {
		s.wakeEngines(u)
	}
	return stored, fresh, nil
}

// wakeEngines wakes the engines: at the commit of u, or immediately for a transaction of the caller.
func (s *Store) wakeEngines(u *unit) {
	if u != nil {
		u.wrote.Store(true)
		return
	}
	s.run.Wake()
}

// LockSagas reads sagas and locks the file, because SQLite has no other lock. A saga without a row has no
// Name.
func (s *Store) LockSagas(ctx context.Context, tx *sql.Tx, refs ...store.SagaRef) ([]store.Saga, error) {
	x, _, err := s.sessionOf(ctx, tx)
	out := make([]store.Saga, len(refs))
	for i := 0; i < len(refs) && err == nil; i++ {
		out[i], err = lock(ctx, x, refs[i].Name, refs[i].Key)
	}
	if err != nil {
		return nil, sqlexec.Failed("lock sagas", err)
	}
	return out, nil
}

var _ store.Tracker[*sql.Tx] = (*Store)(nil)

// LockTracked reads the rows of sagas and creates missing rows. It locks the file, because SQLite has no
// other lock.
func (s *Store) LockTracked(ctx context.Context, tx *sql.Tx, flow string,
	keys ...string) (rows []store.Tracked, err error) {
	x, _, err := s.sessionOf(ctx, tx)
	if err == nil {
		rows, err = lockTracked(ctx, x, flow, keys...)
	}
	return rows, sqlexec.Failed("lock tracked sagas", err)
}
