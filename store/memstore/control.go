package memstore

import (
	"fmt"
	"maps"

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
		drop := func(_ int64, a asideRow) bool { return a.ID == r.ID && a.Attempts > 0 }
		there := false
		for seq, a := range tx.s.db.aside {
			there = there || drop(seq, a)
		}
		if !there {
			return fmt.Errorf("drop deferred row %s: %w", r.ID, store.ErrLost)
		}
		tx.keeps = append(tx.keeps, func(d *database) { maps.DeleteFunc(d.aside, drop) })
	}
	return nil
}
