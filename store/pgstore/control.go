package pgstore

import (
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/column"
	"github.com/skald-go/skald/store/pgstore/internal/pgrun"
)

// operate are the calls for what an operator does beside kept messages.
func (c *core) operate(e *store.Effect) (calls []pgrun.Call) {
	if o := e.Control; o != nil {
		for i := range o.Checkpoints {
			var l checkpointLists
			l.add(&o.Checkpoints[i])
			calls = append(calls, c.pg.Call("OccupyCheckpoints", column.Name(o.Consumer),
				column.Legible(o.Checkpoints[i].Session), column.Legible(o.Checkpoints[i].Stamp),
				l.partitions, l.origins, l.positions, l.reaches))
		}
	}
	if r := e.DropDeferred; r != nil {
		calls = append(calls, c.pg.Call("LockDeferred", column.Legible(r.ID)),
			c.pg.Call("DropDeferred", column.Legible(r.ID)))
	}
	return calls
}
