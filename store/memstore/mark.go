package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald/store"
)

// mark inserts m, or returns the verdict of the existing mark.
func (tx *Tx) mark(ctx context.Context, m store.Mark, until time.Time) (store.Verdict, error) {
	if !storable(m.Outcome) {
		return store.Verdict{}, fmt.Errorf("mark %s: outcome %d cannot be stored", m.ID, m.Outcome)
	}
	d := tx.s.db
	if err := d.acquire(ctx, tx, keyOf(&m), until); err != nil {
		return store.Verdict{}, fmt.Errorf("mark: %w", err)
	}
	return tx.marks.Take(m, d.now()), nil
}

// storeAnswer stores the answer of a handler with the mark m. It fails if the mark does not exist.
func (tx *Tx) storeAnswer(ctx context.Context, m store.Mark, until time.Time) error {
	if !storable(m.Outcome) {
		return fmt.Errorf("answer %s: outcome %d cannot be stored", m.ID, m.Outcome)
	}
	if err := tx.s.db.acquire(ctx, tx, keyOf(&m), until); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	return tx.marks.Answer(m)
}

// Seen returns whether the consumer finished each message.
func (s *Store) Seen(ctx context.Context, consumer string, ids []store.Identity) ([]store.Verdict, error) {
	out := make([]store.Verdict, len(ids))
	return out, s.enter(ctx, func() error {
		for i, id := range ids {
			out[i] = s.db.marks.Verdict(markKey{Consumer: consumer, Identity: id}, s.db.now())
		}
		return nil
	})
}
