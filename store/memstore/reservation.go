package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore/internal/mark"
)

type (
	reservedKey mark.Key
	// A reservation is whose a key is, and until when.
	reservation struct {
		token       string
		fingerprint int64
		at, until   time.Time
	}
)

func keyReserved(r *store.Reservation) reservedKey { return reservedKey{r.Consumer, r.Identity} }

// Reserve takes a key by lease.
func (s *Store) Reserve(ctx context.Context, r store.Reservation) (out store.Reserved, err error) {
	err = s.enter(ctx, func() error {
		tx := s.begin()
		defer tx.end(ErrEnded)
		d, key := s.db, keyReserved(&r)
		if err := d.acquire(ctx, tx, key, time.Now().Add(d.wait)); err != nil {
			return err
		}
		var done bool
		if out.Verdict, done = d.marks.Find(mark.Key(key), r.Keep, d.now()); done {
			return nil
		}
		if d.marks.TooOld(mark.Key(key)) {
			out.Outcome = store.TooOld
			return nil
		}
		was, taken := d.reserved[key]
		if left := was.until.Sub(d.now()); taken && left > 0 {
			out.Rival, out.Left, out.Fingerprint = true, left, was.fingerprint
			return nil
		}
		d.reserved[key] = reservation{r.Token, r.Fingerprint, d.now(), d.now().Add(r.Lease)}
		return nil
	})
	if err != nil {
		return store.Reserved{}, fmt.Errorf("reserve: %w", err)
	}
	return out, nil
}

// unreserve stages that a key is given back, if r still has it.
func (tx *Tx) unreserve(ctx context.Context, r *store.Reservation, until time.Time) error {
	if r == nil {
		return nil
	}
	key := keyReserved(r)
	if err := tx.s.db.acquire(ctx, tx, key, until); err != nil {
		return fmt.Errorf("give back: %w", err)
	}
	if was, taken := tx.s.db.reserved[key]; !taken || was.token != r.Token {
		return fmt.Errorf("give %s back: %w", r.ID, store.ErrLost)
	}
	d := tx.s.db
	tx.changes = append(tx.changes, func(time.Time) { delete(d.reserved, key) })
	return nil
}
