package memstore

import (
	"fmt"

	"github.com/skald-go/skald/store"
)

// operate checks and stages what an operator does beside kept messages.
func (tx *Tx) operate(e *store.Effect) error {
	if c := e.Control; c != nil {
		tx.keeps = append(tx.keeps, func(d *database) {
			for _, s := range c.Checkpoints {
				s.At = d.now()
				d.checkpoints[checkpointKey{c.Consumer, s.Partition}] = s
			}
		})
	}
	if r := e.DropDeferred; r != nil {
		if !tx.s.db.outbox.Refused(r.ID) {
			return fmt.Errorf("drop deferred row %s: %w", r.ID, store.ErrLost)
		}
		tx.keeps = append(tx.keeps, func(d *database) { d.outbox.Drop(r.ID) })
	}
	return nil
}
