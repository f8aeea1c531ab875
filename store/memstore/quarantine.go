package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald/internal/fingerprint"
	"github.com/skald-go/skald/store"
)

// changeQuarantine checks the guards of e for the quarantine, and adds its changes to the commit of tx.
func (tx *Tx) changeQuarantine(ctx context.Context, e *store.Effect, until time.Time) error {
	d := tx.s.db
	if e.Quarantine != nil {
		one := *e.Quarantine
		one.At = d.now()
		tx.changes = append(tx.changes, func(time.Time) { d.quarantine.Add(one) })
	}
	if q := e.Admitted; q != nil {
		if err := d.acquire(ctx, tx, quarantineKeyOf(q), until); err != nil {
			return fmt.Errorf("take from quarantine: %w", err)
		}
		if err := d.quarantine.Takeable(q); err != nil {
			return err
		}
		tx.changes = append(tx.changes, func(now time.Time) { d.quarantine.Take(q, now) })
	}
	if a := e.Admit; a != nil {
		if tx.admits[a.Number] {
			return fmt.Errorf("admit %d: %w", a.Number, store.ErrLost)
		}
		if err := d.quarantine.Admittable(a); err != nil {
			return err
		}
		if tx.admits == nil {
			tx.admits = map[int64]bool{}
		}
		tx.admits[a.Number] = true
		tx.changes = append(tx.changes, func(now time.Time) { d.quarantine.Admit(a, now) })
	}
	return nil
}

// Database returns the identity of this database.
func (s *Store) Database(context.Context) (store.Database, error) {
	return store.Database{ID: fingerprint.Database(s.db.id), Name: "a database in memory"}, nil
}

// Secret returns the key of the fingerprints of this database. A fingerprint is a keyed hash of a message.
func (s *Store) Secret(ctx context.Context) (key []byte, err error) {
	err = s.enter(ctx, func() error {
		key = []byte(s.db.id)
		return nil
	})
	return key, err
}
