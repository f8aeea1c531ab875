package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// unit is a transaction that Skald began and that a handler uses. A COMMIT of the handler must fail. So until
// Commit, the unit has a row in skald_commit_guard that violates a deferred foreign key.
type unit struct {
	x     *sqlexec.Session
	s     *Store
	hold  int64 // id of the row in skald_commit_guard
	found store.Found
	given map[entity]int64 // versions of the entities that the transaction has locked
	wrote atomic.Bool      // the transaction wrote outbox rows or sagas
	lost  bool             // SQLite rolled back the transaction
	over  bool             // the unit was committed or rolled back
	point bool             // the transaction has a savepoint
}

type entity struct{ space, key string }

// Begin opens a transaction and applies the intake. It returns store.ErrBusy if other writers lock the file
// for longer than Intake.Wait. If that is less than 1 s, Begin may wait up to 1 s longer for other processes.
// Intake.Handle limits the time until Commit, because the unit blocks every other writer of the file.
func (s *Store) Begin(ctx context.Context, in store.Intake) (store.Unit[*sql.Tx], error) {
	if len(in.Settings) > 0 {
		return nil, sqlexec.Failed("begin", store.ErrNoSettings)
	}
	if in.Server != "" {
		return nil, sqlexec.Failed("begin on another server", store.ErrLost)
	}
	x, err := s.run.Begin(ctx, cmp.Or(in.Wait, s.run.Wait), cmp.Or(in.Handle, sqlexec.DefaultHandle))
	if err != nil {
		return nil, sqlexec.Failed("begin", err)
	}
	u := &unit{x: x, s: s, given: map[entity]int64{}}
	if err := u.take(sqlexec.Quiet(ctx), in); err != nil {
		err = u.x.Why(err)
		return nil, sqlexec.Failed("begin", errors.Join(err, x.Close()))
	}
	s.lent.Store(x.Tx, u)
	return u, nil
}

func (u *unit) take(ctx context.Context, in store.Intake) error {
	res, err := u.x.Exec(ctx, "Lend")
	if err != nil {
		return fmt.Errorf("lend: %w", err)
	}
	if u.hold, err = res.LastInsertId(); err != nil {
		return fmt.Errorf("lend: %w", err)
	}
	u.found = store.Found{Marks: make([]store.Verdict, len(in.Marks)),
		Steps: make([]store.Step, len(in.Steps)), Locks: make([]int64, len(in.Locks)),
		Sagas: make([]bool, len(in.Sagas))}
	before := ahead{}
	for i, m := range in.Marks {
		outcome := store.Fresh
		if m.KeyOrder != store.Anytime {
			if outcome, err = keyOutcome(ctx, u.x, &m, before); err != nil {
				return err
			}
		}
		if u.found.Marks[i], err = markPut(ctx, u.x, m); err != nil {
			return err
		}
		if found := &u.found.Marks[i].Outcome; *found == store.Fresh || *found == store.TooOld &&
			(outcome == store.Waiting || outcome == store.Dead) {
			if *found == store.Fresh && outcome != store.Fresh {
				if err := takeBack(ctx, u.x, &m); err != nil {
					return err
				}
			}
			*found = outcome // takes precedence over TooOld
		}
	}
	for i := range in.Steps {
		if u.found.Steps[i], err = step(ctx, u.x, &in.Steps[i]); err != nil {
			return err
		}
	}
	for i, l := range in.Locks {
		if u.found.Locks[i], err = lockEntity(ctx, u.x, l, u.given); err != nil {
			return err
		}
	}
	for i, r := range in.Sagas {
		if u.found.Sagas[i], err = hasVersion(ctx, u.x, r); err != nil {
			return err
		}
	}
	return nil
}

func (u *unit) Tx() *sql.Tx        { return u.x.Tx }
func (u *unit) Found() store.Found { return u.found }

// Outage reports whether the handler's error err comes from an outage that ended the transaction. The
// transaction exceeded Intake.Handle, or SQLite rolled it back because of a full disk, an I/O error or lack
// of memory. If SQLite only ended the statement, Outage returns false, because the transaction is still open.
func (u *unit) Outage(ctx context.Context, err error) bool {
	switch {
	case err == nil || u.over:
		return false
	case u.x.Held():
		return true
	}
	if sqlexec.Unable(err) {
		u.lost = u.checkOpen(ctx) != nil
	}
	return u.lost
}

// checkOpen returns store.ErrLent if the handler ended the transaction. In that case the row in
// skald_commit_guard no longer exists.
func (u *unit) checkOpen(ctx context.Context) error {
	var there int
	err := u.x.Row(sqlexec.Quiet(ctx), "StillLent", u.hold).Scan(&there)
	if errors.Is(err, sql.ErrNoRows) {
		return store.ErrLent
	}
	return err
}

// Return does nothing, because a *sql.Tx cannot be revoked.
func (*unit) Return() {}

// Savepoint sets a savepoint, in place of the last one.
func (u *unit) Savepoint(ctx context.Context) bool {
	if u.over {
		return false
	}
	ctx = sqlexec.Quiet(ctx)
	if u.point {
		if _, err := u.x.Exec(ctx, "ReleaseMessageSavepoint"); err != nil {
			return false
		}
	}
	_, err := u.x.Exec(ctx, "MessageSavepoint")
	u.point = err == nil
	return u.point
}

// Undo rolls back to the savepoint. It returns store.ErrLent if the function ended the transaction: then the
// row in skald_commit_guard, which is older than the savepoint, is gone.
func (u *unit) Undo(ctx context.Context) error {
	if u.over {
		return sql.ErrTxDone
	}
	ctx = sqlexec.Quiet(ctx)
	if _, err := u.x.Exec(ctx, "UndoMessageSavepoint"); err != nil {
		return sqlexec.Failed("roll back to the savepoint", u.x.Why(err))
	}
	return u.Usable(ctx)
}

// Drop ends the transaction as if it had exceeded Intake.Handle.
func (u *unit) Drop() { u.x.Drop() }

// Usable returns store.ErrLent if the handler ended the transaction, and store.ErrUnshared if a statement may
// have left a setting or a temporary object.
func (u *unit) Usable(ctx context.Context) error {
	if u.over {
		return sql.ErrTxDone
	}
	err := u.checkOpen(ctx)
	if err != nil && !errors.Is(err, store.ErrLent) {
		return sqlexec.Failed("use the transaction", u.x.Why(err))
	}
	if err == nil && u.x.Leaves() {
		return store.ErrUnshared
	}
	return err
}

// Commit applies es and commits. It returns store.ErrLent if the handler ended the transaction itself.
func (u *unit) Commit(ctx context.Context, es ...store.Effect) error {
	if err := u.finish(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	err := ctx.Err()
	if err == nil {
		err = u.settle(sqlexec.Quiet(ctx), es)
	}
	if err != nil {
		err = u.x.Why(err)
		_ = u.x.Close()
		return sqlexec.Failed("commit", err)
	}
	if err := u.x.Commit(); err != nil {
		return sqlexec.Failed("commit", err)
	}
	if u.wrote.Load() {
		u.s.run.Wake()
	}
	return nil
}

// settle deletes the row in skald_commit_guard, so that a COMMIT succeeds, and applies es.
func (u *unit) settle(ctx context.Context, es []store.Effect) error {
	n, err := u.x.Count(ctx, "TakeBack", u.hold)
	if err != nil {
		return err
	}
	if n != 1 {
		return store.ErrLent
	}
	for _, e := range es {
		if err := putEffect(ctx, u.x, e, u.given); err != nil {
			return err
		}
		u.wroteBy(&e)
	}
	return nil
}

func (u *unit) wroteBy(e *store.Effect) {
	if wakes(e) {
		u.wrote.Store(true)
	}
}

// finish marks the unit as ended. It returns an error if the unit has already ended.
func (u *unit) finish() error {
	if u.over {
		return sql.ErrTxDone
	}
	u.over = true
	u.s.lent.Delete(u.x.Tx)
	return nil
}

// CommitThen only commits, because a file has no round trip to save.
func (u *unit) CommitThen(ctx context.Context, _ store.Intake,
	es ...store.Effect) (store.Unit[*sql.Tx], error) {
	return nil, u.Commit(ctx, es...)
}

// Rollback rolls back the transaction. Then it applies the effects in another transaction. If the handler
// ended the transaction itself, Rollback applies nothing and returns store.ErrLent.
func (u *unit) Rollback(ctx context.Context, effects ...store.Effect) ([]bool, error) {
	if err := u.finish(); err != nil {
		return nil, fmt.Errorf("roll back: %w", err)
	}
	ended := !u.lost && !u.x.Held() && errors.Is(u.checkOpen(ctx), store.ErrLent)
	if err := u.x.Undo(); err != nil {
		return nil, fmt.Errorf("roll back: %w", err)
	}
	if ended {
		return nil, fmt.Errorf("roll back: %w", store.ErrLent)
	}
	if len(effects) == 0 {
		return nil, nil
	}
	return u.s.Apply(ctx, effects...)
}
