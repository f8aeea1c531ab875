package pgstore

import "github.com/skald-go/skald/store"

// operate are the calls for what an operator does beside kept messages.
func (c *core) operate(e *store.Effect) (calls []call) {
	if o := e.Control; o != nil {
		for i := range o.Checkpoints {
			var l checkpointLists
			l.add(&o.Checkpoints[i])
			calls = append(calls, c.call("OccupyCheckpoints", name(o.Consumer), legible(o.Checkpoints[i].Session), legible(o.Checkpoints[i].Stamp), l.partitions, l.origins, l.positions, l.reaches))
		}
	}
	if r := e.DropDeferred; r != nil {
		calls = append(calls, c.call("LockDeferred", legible(r.ID)), c.call("DropDeferred", legible(r.ID)))
	}
	return calls
}
