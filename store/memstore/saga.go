package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
)

// lockSaga locks a saga, unless it does not exist.
func (tx *Tx) lockSaga(ctx context.Context, at sagaKey, until time.Time) error {
	if _, there := tx.sagas.Get(at); !there {
		return nil
	}
	if err := tx.s.db.acquire(ctx, tx, at, until); err != nil {
		return fmt.Errorf("saga: %w", err)
	}
	return nil
}

// StartSagas writes new sagas and reads existing ones, in the order of names and keys. If a rival starts one
// of the sagas, StartSagas waits for the rival.
func (s *Store) StartSagas(ctx context.Context, tx *Tx,
	ss ...store.Saga) (stored []store.Saga, fresh []bool, err error) {
	if tx.s.db != s.db {
		return nil, nil, errOther
	}
	if err := sagarow.CheckStarts(ss); err != nil {
		return nil, nil, err
	}
	stored, fresh = make([]store.Saga, len(ss)), make([]bool, len(ss))
	bySaga := func(a, b store.Saga) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key))
	}
	for _, i := range order(ss, bySaga) {
		err := tx.run(func(d *database) error {
			at := sagaKeyOf(ss[i].Name, ss[i].Key)
			if err := d.acquire(ctx, tx, at, time.Now().Add(tx.wait)); err != nil {
				return err
			}
			if stored[i], fresh[i] = tx.sagas.Start(ss[i], d.now()); fresh[i] {
				tx.wakeOnCommit(s)
			}
			return nil
		})
		if err != nil {
			return nil, nil, fmt.Errorf("start a saga: %w", err)
		}
	}
	return stored, fresh, nil
}

// LockSagas reads sagas and locks them until tx ends, in the order of names and keys.
func (s *Store) LockSagas(ctx context.Context, tx *Tx, refs ...store.SagaRef) ([]store.Saga, error) {
	if tx.s.db != s.db {
		return nil, errOther
	}
	out := make([]store.Saga, len(refs))
	bySaga := func(a, b store.SagaRef) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key))
	}
	for _, i := range order(refs, bySaga) {
		err := tx.run(func(d *database) error {
			at := sagaKeyOf(refs[i].Name, refs[i].Key)
			if err := tx.lockSaga(ctx, at, time.Now().Add(tx.wait)); err != nil {
				return err
			}
			one, there := tx.sagas.Get(at)
			if there {
				one.Read = d.now()
			}
			out[i] = one
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("lock: %w", err)
		}
	}
	return out, nil
}

// lockSagaAt locks a saga if it has the version of ref.
func (tx *Tx) lockSagaAt(ctx context.Context, ref store.SagaRef, until time.Time) (bool, error) {
	if !tx.sagas.HasVersion(ref) {
		return false, nil
	}
	if err := tx.lockSaga(ctx, sagaKeyOf(ref.Name, ref.Key), until); err != nil {
		return false, err
	}
	return tx.sagas.HasVersion(ref), nil
}

// changeSagas checks the parts of e that concern sagas, and adds them to the commit of tx.
func (tx *Tx) changeSagas(ctx context.Context, e *store.Effect, until time.Time) error {
	if err := tx.moveSaga(ctx, e.Saga, until); err != nil {
		return err
	}
	tx.saveTracked(e.Tracked)
	return tx.noteDefinitions(e.Definitions)
}

// moveSaga adds the new state of a saga to the commit of tx. It fails if the saga has another version.
func (tx *Tx) moveSaga(ctx context.Context, m *store.SagaUpdate, until time.Time) error {
	if m == nil {
		return nil
	}
	if err := sagarow.CheckMove(m); err != nil {
		return err
	}
	if err := tx.lockSaga(ctx, sagaKeyOf(m.Name, m.Key), until); err != nil {
		return err
	}
	return tx.sagas.Move(m, tx.s.db.now())
}

// wakeOnCommit makes the commit of tx also wake s.
func (tx *Tx) wakeOnCommit(s *Store) {
	if s != tx.s && !slices.Contains(tx.by, s) {
		tx.by = append(tx.by, s)
	}
}

func (d *database) lockedSaga(at sagaKey) bool { return d.held[at] != nil }

// noteDefinitions adds definitions of sagas to the commit of tx.
func (tx *Tx) noteDefinitions(ds []store.SagaDefinition) error {
	for i := range ds {
		if err := sagarow.CheckDefinition(&ds[i]); err != nil {
			return err
		}
	}
	tx.changes = append(tx.changes, func(now time.Time) { tx.s.db.sagas.Define(ds, now) })
	return nil
}
