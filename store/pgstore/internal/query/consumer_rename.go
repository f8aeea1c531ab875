package query

import (
	"context"
	"time"

	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/internal/control"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// Rename moves the rows of a consumer to another name, if no process of either consumer is active. It checks
// the conditions first without locks, and again in the transaction that moves the rows. If a condition does
// not hold, Rename moves nothing and returns a result with Done false. Most of the time goes to marks,
// because each mark has entries in two indexes.
func (c *Consumers) Rename(ctx context.Context, r store.Rename) (out store.Renamed, err error) {
	was, is := sqlexec.Name(r.Old), sqlexec.Name(r.New)
	err = c.pg.Short(ctx, "count the rows of consumers", c.pg.Call("Patient"), c.countRows(was, &out.Old),
		c.countRows(is, &out.New))
	if err != nil || r.Audit == nil || !column.Movable(&out, r.Quiet) {
		return out, err
	}
	calls := []sqlexec.Call{c.pg.Call("Patient"), c.pg.Call("LockConsumers", was, is),
		c.pg.Call("GuardRename", was, is, r.Quiet.Milliseconds(), control.Prefix)}
	for _, move := range []string{"MoveMarks", "MoveParked", "MoveQuarantined", "MoveSteps", "MoveFloor",
		"MoveStepFloors",
		"DropCheckpoints", "MoveCheckpoints", "DropTypes", "MoveTypes", "DropConsumer", "MoveConsumer"} {
		calls = append(calls, c.pg.Call(move, was, is))
	}
	calls = append(calls, c.pg.Call("NewRun"))
	err = c.pg.Short(ctx, "rename a consumer", append(calls, Note(c.pg, r.Audit))...)
	if sqlexec.Lost(err) {
		return out, nil
	}
	out.Done = err == nil
	return out, err
}

// countRows returns the call that counts the rows of a consumer in each table into b.
func (c *Consumers) countRows(consumer string, b *store.ConsumerRows) sqlexec.Call {
	read := c.pg.Call("Belongings", consumer, control.Prefix)
	read.Scan = func(row sqlexec.Scanner) error {
		var heard int64 // in milliseconds
		err := row.Scan(&b.Marks, &b.Positions, &b.Controls, &b.Parked, &b.Dead, &b.Quarantined, &b.Steps,
			&b.Floors, &b.Types, &heard)
		if b.LastHeartbeat = -1; heard >= 0 {
			b.LastHeartbeat = time.Duration(heard) * time.Millisecond
		}
		return err
	}
	return read
}
