package memstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

// HoldEntities adds a saga to the queue of each entity. It returns true if the saga is at the front of all
// queues.
func (s *Store) HoldEntities(ctx context.Context, tx *Tx, h store.EntityHold) (front bool, err error) {
	if tx.s.db != s.db {
		return false, errOther
	}
	front = true
	err = tx.run(func(d *database) error {
		until := time.Now().Add(tx.wait)
		for _, i := range order(h.Entities, byEntity) {
			if _, err := tx.entity(ctx, h.Entities[i], until); err != nil {
				return err
			}
		}
		for _, e := range h.Entities {
			front = tx.sagas.HoldEntity(&h, e, d.now()) && front
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("hold entities: %w", err)
	}
	return front, nil
}

// QueueState reports whether holder is in a queue, and whether it is at the front of all its queues.
func (s *Store) QueueState(ctx context.Context, tx *Tx, holder string) (waits, front bool, err error) {
	err = s.lockQueues(ctx, tx, holder, func(_ *database, es []store.Lock) error {
		waits = len(es) > 0
		front = waits && !slices.ContainsFunc(es, func(e store.Lock) bool {
			h, held := tx.sagas.Holder(e)
			return !held || h.Holder != holder
		})
		return nil
	})
	if err != nil {
		return false, false, fmt.Errorf("read places in line: %w", err)
	}
	return waits, front, nil
}

// FreeEntities removes a holder from all queues.
func (s *Store) FreeEntities(ctx context.Context, tx *Tx, holder string) error {
	err := s.lockQueues(ctx, tx, holder, func(d *database, es []store.Lock) error {
		for _, e := range es {
			next, is := tx.sagas.Leave(sagaEntity{Space: e.Space, Key: e.Key}, holder)
			if rival := d.held[next]; is && (rival == nil || rival == tx) {
				if err := d.acquire(ctx, tx, next, time.Now().Add(tx.wait)); err != nil {
					return fmt.Errorf("lock: %w", err)
				}
				tx.sagas.Wake(next, d.now())
			}
		}
		tx.wakeOnCommit(s)
		return nil
	})
	if err != nil {
		return fmt.Errorf("free entities: %w", err)
	}
	return nil
}

// lockQueues locks the entities with holder in their queues, and passes these entities to f.
func (s *Store) lockQueues(ctx context.Context, tx *Tx, holder string,
	f func(*database, []store.Lock) error) error {
	if tx.s.db != s.db {
		return errOther
	}
	return tx.run(func(d *database) error {
		var es []store.Lock
		for _, at := range tx.sagas.Lines(holder) {
			es = append(es, store.Lock{Space: at.Space, Key: at.Key})
		}
		for _, i := range order(es, byEntity) {
			at := entity{es[i].Space, es[i].Key}
			if err := d.acquire(ctx, tx, at, time.Now().Add(tx.wait)); err != nil {
				return fmt.Errorf("lock: %w", err)
			}
		}
		return f(d, es)
	})
}

// EntityHolders returns the first saga in the queue of each entity.
func (s *Store) EntityHolders(_ context.Context, tx *Tx, es ...store.Lock) (out []store.Hold, err error) {
	if tx.s.db != s.db {
		return nil, errOther
	}
	err = tx.run(func(*database) error {
		for _, e := range es {
			if h, held := tx.sagas.Holder(e); held {
				out = append(out, h)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the holders of entities: %w", err)
	}
	return out, nil
}
