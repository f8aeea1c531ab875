package memstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/internal/complete"
	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
)

var errReturned = fmt.Errorf("the function that was lent this transaction has returned: write before it returns, and wait for your goroutines: %w", ErrEnded)

var errNoSavepoint = errors.New("the memory store has no savepoints")

var errOther = errors.New("the transaction is of another database")

type unit struct {
	tx    *Tx
	found store.Found
}

// Begin begins a transaction and applies the intake.
func (s *Store) Begin(ctx context.Context, in store.Intake) (store.Unit[*Tx], error) {
	if len(in.Settings) > 0 {
		return nil, fmt.Errorf("begin: %w", store.ErrNoSettings)
	}
	if in.Server != "" {
		return nil, fmt.Errorf("begin on another server: %w", store.ErrLost)
	}
	if in.Isolation != store.ReadCommitted {
		return nil, fmt.Errorf("begin: %w", store.ErrNoIsolation)
	}
	u := &unit{}
	err := s.enter(ctx, func() error {
		u.tx = s.begin()
		u.tx.lent = true
		u.tx.wait = cmp.Or(in.Wait, s.db.wait)
		err := u.take(ctx, in)
		if err != nil {
			u.tx.end(ErrEnded)
		}
		u.tx.handle = cmp.Or(in.Handle, defaultHandle)
		u.tx.touch()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("begin: %w", err)
	}
	return u, nil
}

// Enter applies an intake in a transaction of the caller.
func (s *Store) Enter(ctx context.Context, tx *Tx, in store.Intake) (store.Found, error) {
	u := &unit{tx: tx}
	if len(in.Settings) > 0 {
		return u.found, fmt.Errorf("enter: %w", store.ErrNoSettings)
	}
	if tx.s.db != s.db {
		return u.found, errOther
	}
	err := tx.run(func(*database) error { return u.take(ctx, in) })
	if err != nil {
		return u.found, fmt.Errorf("enter: %w", err)
	}
	return u.found, nil
}

// take applies an intake, beginning with the marks. It locks each kind in sorted order, so that two intakes
// cannot deadlock.
func (u *unit) take(ctx context.Context, in store.Intake) error {
	until := time.Now().Add(u.tx.wait)
	// outcomes has the results for messages that are parked or dead.
	outcomes, before := make([]store.Outcome, len(in.Marks)), ahead{}
	for _, i := range order(in.Marks, byKeyLock) {
		if in.Marks[i].KeyOrder == store.Anytime {
			continue
		}
		var err error
		if outcomes[i], err = u.tx.lockTurnOf(ctx, &in.Marks[i], before, until); err != nil {
			return err
		}
	}
	u.found = store.Found{Marks: make([]store.Verdict, len(in.Marks)),
		Steps: make([]store.Step, len(in.Steps)), Locks: make([]int64, len(in.Locks)),
		Sagas: make([]bool, len(in.Sagas))}
	for _, i := range takingOrder(in.Marks) {
		var err error
		if u.found.Marks[i], err = u.tx.mark(ctx, in.Marks[i], until); err != nil {
			return err
		}
		if found := &u.found.Marks[i].Outcome; *found == store.Fresh || *found == store.TooOld &&
			(outcomes[i] == store.Waiting || outcomes[i] == store.Dead) {
			*found = outcomes[i] // takes precedence over TooOld
		}
		if outcomes[i] != store.Fresh {
			// so that the transaction can commit the other marks
			u.tx.marks.Undo(keyOf(&in.Marks[i]))
		}
	}
	for _, i := range order(in.Steps, stepByKey) {
		var err error
		if u.found.Steps[i], err = u.tx.step(ctx, &in.Steps[i], until); err != nil {
			return err
		}
	}
	for _, i := range order(in.Locks, byEntity) {
		var err error
		if u.found.Locks[i], err = u.tx.entity(ctx, in.Locks[i], until); err != nil {
			return err
		}
	}
	for _, i := range order(in.Sagas, byRef) {
		var err error
		if u.found.Sagas[i], err = u.tx.lockSagaAt(ctx, in.Sagas[i], until); err != nil {
			return err
		}
	}
	return nil
}

// entity locks l and returns its new version.
func (tx *Tx) entity(ctx context.Context, l store.Lock, until time.Time) (int64, error) {
	d, e := tx.s.db, entity{l.Space, l.Key}
	if err := d.acquire(ctx, tx, e, until); err != nil {
		return 0, fmt.Errorf("lock: %w", err)
	}
	tx.given[e] = d.versions[e] + 1
	return tx.given[e], nil
}

func (u *unit) Tx() *Tx            { return u.tx }
func (u *unit) Found() store.Found { return u.found }

// Outage returns true if Kill or an idle timeout ended the transaction. It also returns true if the
// transaction was aborted because another transaction had a key for too long.
func (u *unit) Outage(_ context.Context, err error) bool {
	d := u.tx.s.db
	d.mu.Lock()
	defer d.mu.Unlock()
	if usable := u.tx.usable(); usable == nil || err == nil {
		return false
	}
	return u.tx.s.Outage(u.tx.over) || errors.Is(u.tx.failed, store.ErrBusy) && errors.Is(err, store.ErrBusy)
}

// Return revokes the handle of a function that has returned.
func (u *unit) Return() {
	d := u.tx.s.db
	d.mu.Lock()
	defer d.mu.Unlock()
	if u.tx.over == nil {
		u.tx = u.tx.pass()
	}
}

// Drop ends the transaction as if it had exceeded Intake.Handle.
func (u *unit) Drop() {
	d := u.tx.s.db
	d.mu.Lock()
	defer d.mu.Unlock()
	u.tx.end(ErrIdle)
}

// Savepoint returns false, because this driver has no savepoints.
func (*unit) Savepoint(context.Context) bool { return false }

// Undo returns an error, because this driver has no savepoints.
func (*unit) Undo(context.Context) error { return errNoSavepoint }

// Usable returns an error if the transaction has ended or is aborted.
func (u *unit) Usable(context.Context) error {
	d := u.tx.s.db
	d.mu.Lock()
	defer d.mu.Unlock()
	return u.tx.usable()
}

// Commit applies es and commits.
func (u *unit) Commit(ctx context.Context, es ...store.Effect) error {
	d := u.tx.s.db
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := u.tx.finish(ctx, es); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// CommitThen only commits, because memory has no round trip to save.
func (u *unit) CommitThen(ctx context.Context, _ store.Intake, es ...store.Effect) (store.Unit[*Tx], error) {
	return nil, u.Commit(ctx, es...)
}

// Rollback rolls back the transaction. Then it applies the effects in new transactions.
func (u *unit) Rollback(ctx context.Context, effects ...store.Effect) ([]bool, error) {
	d := u.tx.s.db
	d.mu.Lock()
	over := u.tx.over
	u.tx.end(ErrEnded)
	d.mu.Unlock()
	if errors.Is(over, ErrEnded) {
		return nil, fmt.Errorf("roll back: %w", over)
	}
	if len(effects) == 0 {
		return nil, nil
	}
	return u.tx.s.Apply(ctx, effects...)
}

// finish applies es and commits, or rolls back. The caller must have locked mu of the database.
func (tx *Tx) finish(ctx context.Context, es []store.Effect) error {
	until := time.Now().Add(tx.wait)
	for _, e := range es {
		if err := tx.stage(ctx, e, until); err != nil {
			tx.end(ErrEnded)
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		tx.end(ErrEnded)
		return err
	}
	return tx.commit()
}

// stage checks the guards of e and adds its writes to the commit of tx.
func (tx *Tx) stage(ctx context.Context, e store.Effect, until time.Time) error {
	if e.Mark != nil && e.Mark.KeyOrder != store.Anytime {
		outcome, err := tx.lockTurnOf(ctx, e.Mark, nil, until)
		if err != nil {
			return err
		}
		if outcome != store.Fresh {
			return fmt.Errorf("message %s is %v: %w", e.Mark.ID, outcome, store.ErrLost)
		}
	}
	if e.Mark != nil {
		was, err := tx.mark(ctx, *e.Mark, until)
		if err != nil {
			return err
		}
		if was.Outcome != store.Fresh {
			return fmt.Errorf("mark %s is %v: %w", e.Mark.ID, was.Outcome, store.ErrLost)
		}
		if column.Answered(e.Mark) {
			if err := tx.storeAnswer(ctx, *e.Mark, until); err != nil {
				return err
			}
		}
	}
	if e.Step != nil {
		if err := tx.setStep(ctx, e.Step, until); err != nil {
			return err
		}
	}
	for _, i := range order(e.Locks, byEntity) {
		l := e.Locks[i]
		given, err := tx.entity(ctx, l, until)
		if err != nil {
			return err
		}
		if l.Version != 0 && l.Version != given {
			return fmt.Errorf("lock %s %s is at %d, not %d: %w", l.Space, l.Key, given, l.Version,
				store.ErrLost)
		}
	}
	if e.Shard != nil {
		if err := tx.s.db.outbox.Guard(*e.Shard); err != nil {
			return err
		}
		tx.shards = append(tx.shards, *e.Shard)
	}
	if e.Answer != nil {
		if err := tx.storeAnswer(ctx, *e.Answer, until); err != nil {
			return err
		}
	}
	if err := tx.changeSagas(ctx, &e, until); err != nil {
		return err
	}
	if err := tx.keep(ctx, &e, until); err != nil {
		return err
	}
	if err := tx.operate(&e); err != nil {
		return err
	}
	if err := tx.unreserve(ctx, e.Reservation, until); err != nil {
		return err
	}
	if err := tx.changeQuarantine(ctx, &e, until); err != nil {
		return err
	}
	return tx.write(e)
}

// write adds the rows of e to the commit of tx, with their sequence numbers.
func (tx *Tx) write(e store.Effect) error {
	d := tx.s.db
	for i := range e.Rows {
		if err := complete.Limits(&e.Rows[i]); err != nil {
			return err
		}
		tx.rows = append(tx.rows, d.outbox.Draw(e.Rows[i], d.now()))
	}
	return nil
}

// Write adds es to tx and never commits tx.
func (s *Store) Write(ctx context.Context, tx *Tx, es ...store.Effect) error {
	if tx.s.db != s.db {
		return errOther
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	err := tx.run(func(*database) error {
		tx.wakeOnCommit(s)
		for _, e := range es {
			if !column.RowsOnly(e) {
				return column.ErrRowsOnly
			}
			if e.Answer != nil {
				if err := tx.storeAnswer(ctx, *e.Answer, time.Now().Add(tx.wait)); err != nil {
					return err
				}
			}
			if err := tx.moveSaga(ctx, e.Saga, time.Now().Add(tx.wait)); err != nil {
				return err
			}
			tx.saveTracked(e.Tracked)
			if err := tx.write(e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// Apply applies the effects in order, each in its own transaction, because memory has no savepoints. It
// applies none if a row exceeds a limit. After an outage, the earlier effects are stored, although the
// results are false.
func (s *Store) Apply(ctx context.Context, es ...store.Effect) ([]bool, error) {
	stored := make([]bool, len(es))
	for i := range es {
		for j := range es[i].Rows {
			if err := complete.Limits(&es[i].Rows[j]); err != nil {
				return stored, fmt.Errorf("apply: %w", err)
			}
		}
		if m := es[i].Saga; m != nil {
			if err := sagarow.CheckMove(m); err != nil {
				return stored, fmt.Errorf("apply: %w", err)
			}
		}
	}
	for i, e := range es {
		err := s.enter(ctx, func() error {
			tx := s.begin()
			tx.wait = sagarow.LockWait(es, tx.wait)
			return tx.finish(ctx, []store.Effect{e})
		})
		if err != nil && !errors.Is(err, store.ErrLost) {
			return make([]bool, len(es)), fmt.Errorf("apply: %w", err)
		}
		stored[i] = err == nil
	}
	return stored, nil
}
