package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald/store"
)

func (tx *Tx) lockStep(ctx context.Context, s *store.Step, until time.Time) error {
	if err := tx.s.db.acquire(ctx, tx, stepKeyOf(s), until); err != nil {
		return fmt.Errorf("step: %w", err)
	}
	return nil
}

func (d *database) lockedStep(at stepKey) bool { return d.held[at] != nil }

// step takes or undoes the step s and returns the previous state.
func (tx *Tx) step(ctx context.Context, s *store.Step, until time.Time) (store.Step, error) {
	if err := tx.lockStep(ctx, s, until); err != nil {
		return store.Step{}, err
	}
	return tx.steps.Take(s, tx.s.db.now())
}

// setStep adds the new state of the step s to the commit of tx. It fails if the present state is not in
// s.From.
func (tx *Tx) setStep(ctx context.Context, s *store.Step, until time.Time) error {
	if err := tx.lockStep(ctx, s, until); err != nil {
		return err
	}
	return tx.steps.Set(s, tx.s.db.now())
}

// noteStep adds to the commit of tx that the message of a step is parked or dead. If the step is barred or
// undone, its dead letter blocks no other message.
func (tx *Tx) noteStep(ctx context.Context, p *store.Park, until time.Time) error {
	if p.Step == nil {
		return nil
	}
	if err := tx.lockStep(ctx, p.Step, until); err != nil {
		return err
	}
	if over := tx.steps.Note(p.Step, p.Dead != nil, tx.s.db.now()); over && p.Dead != nil {
		id := markKey{Consumer: p.Consumer, Identity: p.Identity}
		tx.changes = append(tx.changes, func(now time.Time) { tx.s.db.kept.LetGo(id, now) })
	}
	return nil
}

// Steps returns all steps, by consumer, saga, name and occurrence.
func (s *Store) Steps() []store.Step {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	return s.db.steps.Rows()
}
