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

// unit is a transaction lent to a handler. Until Commit it holds a row of skald_commit_guard whose reference
// leads nowhere, so that nobody else can commit it.
type unit struct {
	x     *sqlexec.Session
	s     *Store
	hold  int64 // the row of skald_commit_guard
	found store.Found
	given map[entity]int64
	wrote atomic.Bool // rows into the outbox, or sagas
	lost  bool        // SQLite rolled it back
	over  bool
}

type entity struct{ space, key string }

// Begin opens a unit and takes in. store.ErrBusy: another writer had the file for longer than in.Wait, one of
// another process for longer than that and a second.
// In.Handle bounds the whole time to Commit, since the unit holds up every other writer of the file.
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
		stands := store.Fresh
		if m.KeyOrder != store.Anytime {
			if stands, err = turn(ctx, u.x, &m, before); err != nil {
				return err
			}
		}
		if u.found.Marks[i], err = markPut(ctx, u.x, m); err != nil {
			return err
		}
		if found := &u.found.Marks[i].Outcome; *found == store.Fresh || *found == store.TooOld &&
			(stands == store.Waiting || stands == store.Dead) {
			if *found == store.Fresh && stands != store.Fresh {
				if err := takeBack(ctx, u.x, &m); err != nil {
					return err
				}
			}
			*found = stands // what is kept is not too old
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
		if u.found.Sagas[i], err = stands(ctx, u.x, r); err != nil {
			return err
		}
	}
	return nil
}

func (u *unit) Tx() *sql.Tx        { return u.x.Tx }
func (u *unit) Found() store.Found { return u.found }

// Outage tells whether the transaction was held for too long, or SQLite rolled it back in the middle: for a
// disk that is full, an I/O error, memory that was not to be had. Where SQLite ended the statement alone, the
// transaction still stands, and whether the file can be written the next transaction finds out.
func (u *unit) Outage(ctx context.Context, err error) bool {
	switch {
	case err == nil || u.over:
		return false
	case u.x.Held():
		return true
	}
	if sqlexec.Unable(err) {
		u.lost = u.ended(ctx) != nil
	}
	return u.lost
}

// ended returns store.ErrLent if the row is gone that keeps others from committing the transaction.
func (u *unit) ended(ctx context.Context) error {
	var there int
	err := u.x.Row(sqlexec.Quiet(ctx), "StillLent", u.hold).Scan(&there)
	if errors.Is(err, sql.ErrNoRows) {
		return store.ErrLent // it was ended in SQL
	}
	return err
}

// Return does nothing: a *sql.Tx cannot be revoked.
func (*unit) Return() {}

// Drop ends the transaction as if it had been held for too long.
func (u *unit) Drop() { u.x.Drop() }

// Usable reads the row that keeps others from committing the transaction.
func (u *unit) Usable(ctx context.Context) error {
	if u.over {
		return sql.ErrTxDone
	}
	err := u.ended(ctx)
	if err != nil && !errors.Is(err, store.ErrLent) {
		return sqlexec.Failed("use the transaction", u.x.Why(err))
	}
	return err
}

// Commit writes es and commits. The handler's own Commit or Rollback is found here: store.ErrLent.
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
		_ = u.x.Close() // err says why it has to go
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

// settle takes the transaction back and writes es into it.
func (u *unit) settle(ctx context.Context, es []store.Effect) error {
	n, err := u.x.Count(ctx, "TakeBack", u.hold)
	if err != nil {
		return err
	}
	if n != 1 {
		return store.ErrLent // it was ended in SQL
	}
	for _, e := range es {
		if err := put(ctx, u.x, e, u.given); err != nil {
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

// finish ends the unit, once.
func (u *unit) finish() error {
	if u.over {
		return sql.ErrTxDone
	}
	u.over = true
	u.s.lent.Delete(u.x.Tx)
	return nil
}

// CommitThen commits; a commit here is no round trip that the next unit could share.
func (u *unit) CommitThen(ctx context.Context, _ store.Intake,
	es ...store.Effect) (store.Unit[*sql.Tx], error) {
	return nil, u.Commit(ctx, es...)
}

// Rollback undoes everything and then applies instead. store.ErrLent: the handler had ended the transaction
// itself; then instead is not applied.
func (u *unit) Rollback(ctx context.Context, instead ...store.Effect) ([]bool, error) {
	if err := u.finish(); err != nil {
		return nil, fmt.Errorf("roll back: %w", err)
	}
	ended := !u.lost && !u.x.Held() && errors.Is(u.ended(ctx), store.ErrLent)
	if err := u.x.Undo(); err != nil {
		return nil, fmt.Errorf("roll back: %w", err)
	}
	if ended {
		return nil, fmt.Errorf("roll back: %w", store.ErrLent)
	}
	if len(instead) == 0 {
		return nil, nil
	}
	return u.s.Apply(ctx, instead...)
}
