package memstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
)

// lockSaga locks a saga. One that is not there is not locked.
func (tx *Tx) lockSaga(ctx context.Context, at sagaKey, until time.Time) error {
	if _, there := tx.sagas.Get(at); !there {
		return nil
	}
	if err := tx.s.db.acquire(ctx, tx, at, until); err != nil {
		return fmt.Errorf("saga: %w", err)
	}
	return nil
}

// StartSaga writes a new saga, or reads the one that is there. A rival that starts it is waited for.
func (s *Store) StartSaga(ctx context.Context, tx *Tx,
	start store.Saga) (stored store.Saga, fresh bool, err error) {
	if tx.s.db != s.db {
		return stored, false, errOther
	}
	err = tx.do(func(d *database) error {
		if err := sagarow.Check(&start); err != nil {
			return err
		}
		at := sagaKeyOf(start.Name, start.Key)
		if err := d.acquire(ctx, tx, at, time.Now().Add(tx.wait)); err != nil {
			return err
		}
		if stored, fresh = tx.sagas.Start(start, d.now()); fresh {
			tx.wakes(s)
		}
		return nil
	})
	if err != nil {
		return store.Saga{}, false, fmt.Errorf("start a saga: %w", err)
	}
	return stored, fresh, nil
}

// LockSaga reads a saga and locks it until tx ends.
func (s *Store) LockSaga(ctx context.Context, tx *Tx, name,
	key string) (stored store.Saga, there bool, err error) {
	if tx.s.db != s.db {
		return stored, false, errOther
	}
	err = tx.do(func(d *database) error {
		at := sagaKeyOf(name, key)
		if err := tx.lockSaga(ctx, at, time.Now().Add(tx.wait)); err != nil {
			return err
		}
		if stored, there = tx.sagas.Get(at); there {
			stored.Read = d.now()
		}
		return nil
	})
	if err != nil {
		return store.Saga{}, false, fmt.Errorf("lock: %w", err)
	}
	return stored, there, nil
}

// standsSaga locks a saga that stands as ref says.
func (tx *Tx) standsSaga(ctx context.Context, ref store.SagaRef, until time.Time) (bool, error) {
	if !tx.sagas.Stands(ref) {
		return false, nil
	}
	if err := tx.lockSaga(ctx, sagaKeyOf(ref.Name, ref.Key), until); err != nil {
		return false, err
	}
	return tx.sagas.Stands(ref), nil
}

// moveSaga is the guard of an effect, and what it makes of the saga.
func (tx *Tx) moveSaga(ctx context.Context, m *store.SagaMove, until time.Time) error {
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

// wakes has a handle woken by tx, too.
func (tx *Tx) wakes(s *Store) {
	if s != tx.s && !slices.Contains(tx.by, s) {
		tx.by = append(tx.by, s)
	}
}

// ClaimSagas leases sagas that are due.
func (s *Store) ClaimSagas(ctx context.Context, c store.ClaimSagas) (out store.ClaimedSagas, err error) {
	err = s.enter(ctx, func() error {
		out = s.db.sagas.Claim(c, s.db.lockedSaga, s.db.now())
		return nil
	})
	if err != nil {
		return store.ClaimedSagas{}, fmt.Errorf("claim sagas: %w", err)
	}
	return out, nil
}

func (d *database) lockedSaga(at sagaKey) bool { return d.held[at] != nil }

// NoteSagaDefinitions stores definitions.
func (s *Store) NoteSagaDefinitions(ctx context.Context, ds []store.SagaDefinition) error {
	for i := range ds {
		if err := sagarow.CheckDefinition(&ds[i]); err != nil {
			return err
		}
	}
	return s.enter(ctx, func() error {
		s.db.sagas.Define(ds, s.db.now())
		return nil
	})
}
