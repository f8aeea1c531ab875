package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// errDeferred is the error if a transaction of the caller cannot get the write lock. If a transaction began
// with a read, SQLite does not wait for the lock, because the snapshot of the transaction may be old.
var errDeferred = errors.New("the transaction could not begin to write: begin it IMMEDIATE, by _txlock=immediate in the data source name or by sqlitestore.Open; one that began DEFERRED does not wait for another writer")

// Write inserts the rows of es immediately, also in a transaction of a handler, because a file has no round
// trip to save. A rollback to an earlier savepoint removes these rows.
func (s *Store) Write(ctx context.Context, tx *sql.Tx, es ...store.Effect) error {
	for _, e := range es {
		if !column.RowsOnly(e) {
			return fmt.Errorf("write: %w", column.ErrRowsOnly)
		}
	}
	x, u, err := s.sessionOf(ctx, tx)
	failed := func(err error) error {
		if u == nil && sqlexec.Busy(err) {
			err = fmt.Errorf("%w: %w", errDeferred, err)
		}
		return sqlexec.Failed("write", err)
	}
	if err != nil {
		return failed(err)
	}
	for _, e := range es {
		if e.Answer != nil {
			if err := storeAnswer(ctx, x, e.Answer); err != nil {
				return failed(err)
			}
		}
		if err := move(ctx, x, e.Saga); err != nil {
			return failed(err)
		}
		if err := saveTracked(ctx, x, e.Tracked); err != nil {
			return failed(err)
		}
		if err := insert(ctx, x, e.Rows); err != nil {
			return failed(err)
		}
		if u != nil {
			u.wroteBy(&e)
		}
	}
	if u == nil {
		s.run.Wake()
	}
	return nil
}

// sessionOf returns the session of tx. If tx is the transaction of a handler, it also returns the unit.
func (s *Store) sessionOf(ctx context.Context, tx *sql.Tx) (*sqlexec.Session, *unit, error) {
	if v, ok := s.lent.Load(tx); ok {
		u := v.(*unit)
		return u.x, u, nil
	}
	x, err := s.run.Join(ctx, tx)
	return x, nil, err
}

// Apply applies the effects in order, in one transaction with a savepoint for each. If the guard of an effect
// fails, Apply skips that effect and returns false for it. Any other error undoes all effects. If another
// process has the write lock, the wait is at least 1 s, even if SagaUpdate.Wait is shorter.
func (s *Store) Apply(ctx context.Context, es ...store.Effect) ([]bool, error) {
	stored := make([]bool, len(es))
	if len(es) == 0 {
		return stored, nil
	}
	x, err := s.run.Begin(ctx, sagarow.LockWait(es, s.run.Wait), sqlexec.DefaultHandle)
	if err != nil {
		return stored, sqlexec.Failed("apply", err)
	}
	wrote, err := each(sqlexec.Quiet(ctx), x, es, stored)
	if err != nil {
		err = x.Why(err)
		return make([]bool, len(es)), sqlexec.Failed("apply", errors.Join(err, x.Close()))
	}
	if err := x.Commit(); err != nil {
		return make([]bool, len(es)), sqlexec.Failed("apply", err)
	}
	if wrote {
		s.run.Wake()
	}
	return stored, nil
}

func each(ctx context.Context, x *sqlexec.Session, es []store.Effect, stored []bool) (wrote bool, err error) {
	for i, e := range es {
		if _, err := x.Exec(ctx, "Savepoint"); err != nil {
			return false, err
		}
		err := putEffect(ctx, x, e, map[entity]int64{})
		if errors.Is(err, store.ErrLost) {
			if _, err := x.Exec(ctx, "Undo"); err != nil {
				return false, err
			}
			continue
		}
		if err != nil {
			return false, err
		}
		if _, err := x.Exec(ctx, "ReleaseSavepoint"); err != nil {
			return false, err
		}
		stored[i] = true
		wrote = wrote || wakes(&e)
	}
	return wrote, nil
}

// putEffect checks the guards of e and writes e. The map locked has the versions of the entities that the
// transaction has already locked, because a transaction raises the version of an entity only once.
func putEffect(ctx context.Context, x *sqlexec.Session, e store.Effect, locked map[entity]int64) error {
	if e.Mark != nil && e.Mark.KeyOrder != store.Anytime {
		outcome, err := keyOutcome(ctx, x, e.Mark, nil)
		if err != nil {
			return err
		}
		if outcome != store.Fresh {
			return fmt.Errorf("message %s is %v: %w", e.Mark.ID, outcome, store.ErrLost)
		}
	}
	if e.Mark != nil {
		was, err := markPut(ctx, x, *e.Mark)
		if err != nil {
			return err
		}
		if was.Outcome != store.Fresh {
			return fmt.Errorf("mark %s is %v: %w", e.Mark.ID, was.Outcome, store.ErrLost)
		}
		if column.Answered(e.Mark) {
			if err := storeAnswer(ctx, x, e.Mark); err != nil {
				return err
			}
		}
	}
	if e.Step != nil {
		if err := setStep(ctx, x, e.Step); err != nil {
			return err
		}
	}
	for _, l := range e.Locks {
		version, err := lockEntity(ctx, x, l, locked)
		if err != nil {
			return err
		}
		if l.Version != 0 && l.Version != version {
			return fmt.Errorf("lock %s %s is at %d, not %d: %w", l.Space, l.Key, version, l.Version,
				store.ErrLost)
		}
	}
	if e.Shard != nil {
		if err := progress(ctx, x, e.Shard); err != nil {
			return err
		}
	}
	if err := move(ctx, x, e.Saga); err != nil {
		return err
	}
	if err := saveTracked(ctx, x, e.Tracked); err != nil {
		return err
	}
	if err := noteDefinitions(ctx, x, e.Definitions); err != nil {
		return err
	}
	if err := keep(ctx, x, &e); err != nil {
		return err
	}
	if err := putForConsumer(ctx, x, &e); err != nil {
		return err
	}
	return insert(ctx, x, e.Rows)
}

// lockEntity locks l and returns its new version. It adds the entity to the map locked.
func lockEntity(ctx context.Context, x *sqlexec.Session, l store.Lock,
	locked map[entity]int64) (version int64, err error) {
	e := entity{l.Space, l.Key}
	if version, ok := locked[e]; ok {
		return version, nil
	}
	if err := x.Row(ctx, "LockEntity", l.Space, l.Key).Scan(&version); err != nil {
		return 0, fmt.Errorf("lock entity: %w", err)
	}
	locked[e] = version
	return version, nil
}
