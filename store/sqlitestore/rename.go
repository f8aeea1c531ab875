package sqlitestore

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/internal/control"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// moveTakes is the maximum time of a rename. It has the write lock of the file for all that time.
const moveTakes = time.Hour

// Rename moves the rows of a consumer to another name, if no process of either consumer is active. It blocks
// all other writers of the file.
func (s *Store) Rename(ctx context.Context, r store.Rename) (out store.Renamed, err error) {
	err = s.run.AloneFor(ctx, s.run.Wait, moveTakes, func(ctx context.Context,
		x *sqlexec.Session) (err error) {
		if out.Old, err = belongings(ctx, x, r.Old); err != nil {
			return err
		}
		if out.New, err = belongings(ctx, x, r.New); err != nil {
			return err
		}
		if r.Audit == nil || !column.Movable(&out, r.Quiet) {
			return nil
		}
		for _, move := range []string{"MoveMarks", "MoveParked", "MoveQuarantined", "MoveSteps", "MoveFloor",
			"MoveStepFloors",
			"DropCheckpoints", "MoveCheckpoints", "DropTypes", "MoveTypes", "DropConsumer", "MoveConsumer"} {
			if _, err := x.Exec(ctx, move, r.Old, r.New); err != nil {
				return fmt.Errorf("%s: %w", move, err)
			}
		}
		out.Done = true
		return note(ctx, x, r.Audit)
	})
	if err != nil {
		out.Done = false
	}
	return out, sqlexec.Failed("rename a consumer", err)
}

// belongings counts the rows of a consumer in each table.
func belongings(ctx context.Context, x *sqlexec.Session, consumer string) (b store.ConsumerRows, err error) {
	var heard int64 // in milliseconds
	err = x.Row(ctx, "Belongings", consumer, control.Prefix).Scan(&b.Marks, &b.Positions, &b.Controls,
		&b.Parked, &b.Dead, &b.Quarantined, &b.Steps,
		&b.Floors, &b.Types, &heard)
	if b.LastHeartbeat = -1; heard >= 0 {
		b.LastHeartbeat = time.Duration(heard) * time.Millisecond
	}
	return b, err
}
