package memstore

import (
	"fmt"
	"time"

	"github.com/skald-go/skald/store"
)

// operate checks and stages what an operator does beside kept messages.
func (tx *Tx) operate(e *store.Effect) error {
	d := tx.s.db
	if e.Rewind != nil {
		if err := tx.rewind(e.Rewind); err != nil {
			return err
		}
	}
	if c := e.Control; c != nil {
		tx.changes = append(tx.changes, func(now time.Time) {
			for _, s := range c.Checkpoints {
				s.At = now
				d.checkpoints[checkpointKey{c.Consumer, s.Partition}] = s
			}
		})
	}
	if r := e.DropDeferred; r != nil {
		if !d.outbox.Refused(r.ID) {
			return fmt.Errorf("drop deferred row %s: %w", r.ID, store.ErrLost)
		}
		tx.changes = append(tx.changes, func(time.Time) { d.outbox.Drop(r.ID) })
	}
	if e.Audit != nil {
		a := *e.Audit
		tx.changes = append(tx.changes, func(time.Time) { d.note(a) })
	}
	return nil
}
