package memstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/skald-go/skald/store"
)

type (
	entity struct{ space, key string }
	// lockID identifies a lock: an entity, a key of the user's table (a string), or a row of another table.
	// Each kind has its own type, so that locks of different kinds never collide.
	lockID any
)

// database has everything that remains after the end of a process. Its field mu guards all other fields. This
// file has the locks and waits, tx.go the transactions. The tables are plain data.
type database struct {
	mu      sync.Mutex
	id      string // identifies this database in snapshots; also the key of fingerprints
	now     func() time.Time
	wait    time.Duration
	changed chan struct{} // closed when a transaction ends
	held    map[lockID]*Tx

	user         map[string]string
	versions     map[entity]int64
	outbox       *outboxTable
	marks        *markTable
	kept         *messages
	quarantine   quarantineTable
	reservations *reservationTable
	steps        *stepTable
	sagas        *sagaTable
	tracked      *trackedTable
	consumers    *consumerTable
	audit        log
	schemas      map[schemaKey]string // of payloads
	leases       map[string]lease
	keeps        store.Retention // the retention that the last Maintain applied
}

// acquire locks a row for tx until tx ends. While another transaction has the row, acquire unlocks mu and
// waits, until the deadline. Then it returns store.ErrBusy. It also returns store.ErrBusy for a deadlock.
func (d *database) acquire(ctx context.Context, tx *Tx, l lockID, deadline time.Time) error {
	for {
		if err := tx.usable(); err != nil {
			return err
		}
		rival := d.held[l]
		if rival == tx {
			return nil
		}
		if rival == nil {
			d.held[l] = tx
			tx.locks = append(tx.locks, l)
			return nil
		}
		left := time.Until(deadline)
		if idle, ends := rival.idle(); ends {
			if idle <= 0 {
				rival.end(ErrIdle)
				continue
			}
			left = min(left, idle)
		}
		if time.Until(deadline) <= 0 {
			return fmt.Errorf("wait for row %+v: %w", l, store.ErrBusy)
		}
		for r := rival; r != nil; r = r.waitsFor {
			if r == tx {
				return fmt.Errorf("wait for row %+v: deadlock: %w", l, store.ErrBusy)
			}
		}
		if err := d.await(ctx, tx, rival, left); err != nil {
			return err
		}
	}
}

// await unlocks mu until any transaction ends or the time limit has passed.
func (d *database) await(ctx context.Context, tx, rival *Tx, limit time.Duration) error {
	changed, timer := d.changed, time.NewTimer(limit)
	defer timer.Stop()
	tx.waitsFor = rival
	rival.waiters++
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		tx.waitsFor = nil
		rival.waiters--
		tx.touch()
	}()
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// release unlocks tx's rows and wakes waiting transactions.
func (d *database) release(tx *Tx) {
	for _, l := range tx.locks {
		delete(d.held, l)
	}
	tx.locks = nil
	close(d.changed)
	d.changed = make(chan struct{})
}
