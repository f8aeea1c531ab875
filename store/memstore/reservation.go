package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald/store"
)

// Reserve reserves an idempotency key for one caller.
func (s *Store) Reserve(ctx context.Context, r store.Reservation) (out store.Reserved, err error) {
	err = s.enter(ctx, func() error {
		tx := s.begin()
		defer tx.end(ErrEnded)
		d, key := s.db, reservationKeyOf(&r)
		if err := d.acquire(ctx, tx, key, time.Now().Add(d.wait)); err != nil {
			return err
		}
		var done bool
		if out.Verdict, done = d.marks.Find(markKey(key), r.Keep, d.now()); done {
			return nil
		}
		if d.marks.TooOld(markKey(key)) {
			out.Outcome = store.TooOld
			return nil
		}
		out = d.reservations.Take(&r, d.now())
		return nil
	})
	if err != nil {
		return store.Reserved{}, fmt.Errorf("reserve: %w", err)
	}
	return out, nil
}

// unreserve adds the release of a key to the commit of tx. It fails if r no longer has the key.
func (tx *Tx) unreserve(ctx context.Context, r *store.Reservation, until time.Time) error {
	if r == nil {
		return nil
	}
	d, key := tx.s.db, reservationKeyOf(r)
	if err := d.acquire(ctx, tx, key, until); err != nil {
		return fmt.Errorf("release a reservation: %w", err)
	}
	if err := d.reservations.CheckOwner(r); err != nil {
		return err
	}
	tx.changes = append(tx.changes, func(time.Time) { d.reservations.Release(key) })
	return nil
}
