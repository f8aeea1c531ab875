package sqlitestore

import (
	"context"
	"fmt"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// operate applies the actions of an operator in e, except those on parked messages.
func operate(ctx context.Context, x *sqlexec.Session, e *store.Effect) error {
	if c := e.Control; c != nil {
		for _, s := range c.Checkpoints {
			if _, err := x.Exec(ctx, "OccupyCheckpoint", c.Consumer, s.Partition, s.Origin, s.Position,
				s.InFlightEnd, s.Session, s.Stamp); err != nil {
				return fmt.Errorf("control %s: %w", s.Partition, err)
			}
		}
	}
	if r := e.DropDeferred; r != nil {
		n, err := x.Count(ctx, "DropDeferred", r.ID)
		if err == nil && n == 0 {
			err = store.ErrLost
		}
		if err != nil {
			return fmt.Errorf("drop deferred row %s: %w", r.ID, err)
		}
	}
	return nil
}
