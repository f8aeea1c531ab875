// The files saga*.go have the tables of sagas, of their definitions, and of tracked sagas.

package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// sagaTable has the sagas in one file.
type sagaTable struct{ run *sqlexec.DB }

// newSaga returns the sagas in the file of db.
func newSaga(db *sqlexec.DB) *sagaTable { return &sagaTable{db} }

// scanSaga reads the columns of a saga, and the columns after them into others.
func scanSaga(scan func(...any) error, others ...any) (s store.Saga, err error) {
	var since, retry, due, started, changed, ended sql.NullInt64
	err = scan(append([]any{&s.Name, &s.Key, &s.ID, &s.Hash, &s.Input, &s.Fingerprint, &s.Origin, &s.State,
		&s.Version, &s.Status, &s.Stuck, &s.Paused,
		&s.Step, &s.Error, &s.Failed, &since, &retry, &s.Session, &due, &started, &changed, &ended},
		others...)...)
	s.Since, s.Retry, s.Due = sqlexec.OfMillis(since), sqlexec.OfMillis(retry), sqlexec.OfMillis(due)
	s.Started, s.Changed = sqlexec.OfMillis(started), sqlexec.OfMillis(changed)
	s.Ended = sqlexec.OfMillis(ended)
	return s, err
}

// sagaStart writes a new saga, or reads the stored saga with the same name and key.
func sagaStart(ctx context.Context, x *sqlexec.Session, start *store.Saga) (was store.Saga, fresh bool,
	err error) {
	at := sagarow.StoredStatus(start.SagaStatus)
	how, args := "StartSaga", []any{start.Name, start.Key, start.ID, start.Hash, start.Input,
		start.Fingerprint, start.Origin, start.State, at.Status,
		at.Stuck, at.Paused, at.Step, at.Error, at.Failed, sqlexec.Millis(at.Since), sqlexec.Millis(at.Retry),
		start.Session, sqlexec.Milliseconds(start.Lease), sagarow.First(start)}
	if start.Instead != "" {
		how, args = "StartSagaInstead", append(args, start.Instead)
	}
	n, err := x.Count(ctx, how, args...)
	if err == nil {
		was, err = scanSaga(x.Row(ctx, "FindSaga", start.Name, start.Key).Scan)
	}
	return was, n == 1, err
}

// lock locks the file and reads a saga. If the saga has no row, the Name of the result is empty.
func lock(ctx context.Context, x *sqlexec.Session, name, key string) (was store.Saga, err error) {
	if _, err := x.Exec(ctx, "LockSaga", name, key); err != nil {
		return was, err
	}
	was, err = scanSaga(x.Row(ctx, "FindSaga", name, key).Scan)
	was.Read = time.Now().UTC() // SQLite uses the same clock
	if errors.Is(err, sql.ErrNoRows) {
		return store.Saga{}, nil
	}
	return was, err
}

// hasVersion reports whether the saga r has the version r.Version.
func hasVersion(ctx context.Context, x *sqlexec.Session, r store.SagaRef) (is bool, err error) {
	if err := x.Row(ctx, "StandsSaga", r.Name, r.Key, r.Version).Scan(&is); err != nil {
		return false, fmt.Errorf("check a saga: %w", err)
	}
	return is, nil
}

// move stores the new state of a saga. It fails if the saga has another version.
func move(ctx context.Context, x *sqlexec.Session, m *store.SagaUpdate) error {
	if m == nil {
		return nil
	}
	if err := sagarow.CheckMove(m); err != nil {
		return err
	}
	wake := int64(-1)
	if m.Wake >= 0 {
		wake = sqlexec.Milliseconds(m.Wake)
	}
	at := sagarow.StoredStatus(m.SagaStatus)
	n, err := x.Count(ctx, "MoveSaga", m.Name, m.Key, m.Version, m.Hash, m.State, at.Status, at.Stuck,
		at.Paused, at.Step, at.Error, at.Failed,
		sqlexec.Millis(at.Since), sqlexec.Millis(at.Retry), m.Release, wake, m.Final,
		sqlexec.Milliseconds(m.Lease))
	if err != nil {
		return fmt.Errorf("move a saga: %w", err)
	}
	if n == 0 {
		return fmt.Errorf("saga %s %s is not at version %d: %w", m.Name, m.Key, m.Version, store.ErrLost)
	}
	return nil
}
