package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald/store"
)

// Claim claims due parked messages or sagas.
func (s *Store) Claim(ctx context.Context, w store.ClaimRequest) (c store.Claimed, err error) {
	err = s.enter(ctx, func() error {
		if w.Sagas != nil {
			c = s.db.sagas.Claim(w, s.db.lockedSaga, s.db.now())
			return nil
		}
		c = s.db.kept.Claim(w, s.db.now())
		c.Admitted = s.db.quarantine.SomeAdmitted(w.Consumer)
		if w.Sync {
			c.Sync.Checkpoints = s.db.consumers.Checkpoints(w.Consumer)
		}
		return nil
	})
	return c, err
}

// lockTurnOf locks the key of m. It returns Fresh if an intake may take m. Otherwise it returns the reason: m
// or an earlier message of its key is parked or dead.
func (tx *Tx) lockTurnOf(ctx context.Context, m *store.Mark, before ahead,
	until time.Time) (store.Outcome, error) {
	if err := tx.lockTurn(ctx, keyLockOf(m.Consumer, m.Identity, m.Key), until); err != nil {
		return 0, err
	}
	return tx.s.db.kept.Outcome(m, before), nil
}

func (tx *Tx) lockTurn(ctx context.Context, t keyLock, until time.Time) error {
	if err := tx.s.db.acquire(ctx, tx, t, until); err != nil {
		return fmt.Errorf("lock key: %w", err)
	}
	return nil
}

// lockKept locks the key of a parked or dead message, if it exists.
func (tx *Tx) lockKept(ctx context.Context, id markKey, until time.Time) error {
	if t, there := tx.s.db.kept.KeyLockAt(id); there {
		return tx.lockTurn(ctx, t, until)
	}
	return nil
}

// keep checks the guards of e for parked messages, and adds its changes to the commit of tx.
func (tx *Tx) keep(ctx context.Context, e *store.Effect, until time.Time) error {
	d := tx.s.db
	if e.Park != nil {
		if err := tx.park(ctx, e.Park, until); err != nil {
			return err
		}
		if err := tx.noteStep(ctx, e.Park, until); err != nil {
			return err
		}
	}
	if r := e.Requeue; r != nil {
		if err := tx.lockKept(ctx, markKey{Consumer: r.Consumer, Identity: r.Identity}, until); err != nil {
			return err
		}
		change, err := d.kept.Requeue(r, d.now())
		if err != nil {
			return err
		}
		if change != nil {
			tx.changes = append(tx.changes, change)
		}
	}
	if f := e.Finish; f != nil {
		if err := tx.lockKept(ctx, markKey{Consumer: f.Consumer, Identity: f.Identity}, until); err != nil {
			return err
		}
		change, err := d.kept.Finish(f)
		if err != nil {
			return err
		}
		tx.changes = append(tx.changes, change)
	}
	return nil
}

// park adds a new parked message, or a change to one, to the commit of tx.
func (tx *Tx) park(ctx context.Context, p *store.Park, until time.Time) error {
	d, id := tx.s.db, markKey{Consumer: p.Consumer, Identity: p.Identity}
	if p.Was != nil {
		if err := tx.lockKept(ctx, id, until); err != nil {
			return err
		}
	} else {
		if err := tx.lockTurn(ctx, keyLockOf(p.Consumer, p.Identity, p.Message.Key), until); err != nil {
			return err
		}
		if err := d.acquire(ctx, tx, id, until); err != nil {
			return fmt.Errorf("lock mark: %w", err)
		}
	}
	_, done := tx.marks.Get(id)
	parking, err := d.kept.Park(p, done, d.now())
	if err != nil {
		return err
	}
	if p.Instead != nil {
		old := markKey{Consumer: p.Consumer, Identity: *p.Instead}
		if err := tx.lockKept(ctx, old, until); err != nil {
			return err
		}
		if err := parking.Replace(old, d.now()); err != nil {
			return err
		}
	}
	tx.changes = append(tx.changes, parking.Put)
	return nil
}
