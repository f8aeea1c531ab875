package memstore

import (
	"fmt"
	"time"

	"github.com/skald-go/skald/store"
)

// operate checks the actions of an operator in e, except those on parked messages, and adds them to the
// commit of tx.
func (tx *Tx) operate(e *store.Effect) error {
	d := tx.s.db
	if r := e.Rewind; r != nil {
		if err := d.consumers.Rewindable(r); err != nil {
			return err
		}
		tx.changes = append(tx.changes, func(now time.Time) { d.consumers.Rewind(r, now) })
	}
	if c := e.Control; c != nil {
		tx.changes = append(tx.changes, func(now time.Time) { d.consumers.Control(c, now) })
	}
	if r := e.DropDeferred; r != nil {
		if !d.outbox.Refused(r.ID) {
			return fmt.Errorf("drop deferred row %s: %w", r.ID, store.ErrLost)
		}
		tx.changes = append(tx.changes, func(time.Time) { d.outbox.Drop(r.ID) })
	}
	if e.Audit != nil {
		tx.changes = append(tx.changes, func(now time.Time) { d.audit.Note(*e.Audit, now) })
	}
	return nil
}
