package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore/internal/saga"
)

// HoldEntities has a saga stand in line for entities.
func (s *Store) HoldEntities(ctx context.Context, tx *Tx, h store.EntityHold) (first bool, err error) {
	if tx.s.db != s.db {
		return false, errOther
	}
	first = true
	err = tx.do(func(d *database) error {
		until := time.Now().Add(tx.wait)
		for _, i := range order(h.Entities, byEntity) {
			if _, err := tx.entity(ctx, h.Entities[i], until); err != nil {
				return err
			}
		}
		for _, e := range h.Entities {
			first = tx.sagas.HoldEntity(&h, e, d.now()) && first
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("hold entities: %w", err)
	}
	return first, nil
}

// FreeEntities has a holder leave all lines.
func (s *Store) FreeEntities(ctx context.Context, tx *Tx, holder string) error {
	if tx.s.db != s.db {
		return errOther
	}
	err := tx.do(func(d *database) error {
		until := time.Now().Add(tx.wait)
		var locks []store.Lock
		for _, at := range tx.sagas.Lines(holder) {
			locks = append(locks, store.Lock{Space: at.Space, Key: at.Key})
		}
		for _, i := range order(locks, byEntity) {
			if err := d.acquire(ctx, tx, entity{locks[i].Space, locks[i].Key}, until); err != nil {
				return fmt.Errorf("lock: %w", err)
			}
		}
		for _, l := range locks {
			next, is := tx.sagas.Leave(saga.Entity{Space: l.Space, Key: l.Key}, holder)
			if rival := d.held[next]; is && (rival == nil || rival == tx) {
				if err := d.acquire(ctx, tx, next, until); err != nil {
					return fmt.Errorf("lock: %w", err)
				}
				tx.sagas.Wake(next, d.now())
			}
		}
		tx.wakes(s)
		return nil
	})
	if err != nil {
		return fmt.Errorf("free entities: %w", err)
	}
	return nil
}

// EntityHolders tells who holds entities.
func (s *Store) EntityHolders(_ context.Context, tx *Tx, es ...store.Lock) (out []store.Hold, err error) {
	if tx.s.db != s.db {
		return nil, errOther
	}
	err = tx.do(func(*database) error {
		for _, e := range es {
			if h, held := tx.sagas.Holder(e); held {
				out = append(out, h)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look who holds entities: %w", err)
	}
	return out, nil
}
