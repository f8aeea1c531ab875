package sqlitestore

import (
	"context"
	"fmt"

	"github.com/skald-go/skald/store"
)

// operate carries out what an operator does beside kept messages.
func (x *session) operate(ctx context.Context, e *store.Effect) error {
	if c := e.Control; c != nil {
		for _, s := range c.Checkpoints {
			if _, err := x.exec(ctx, "OccupyCheckpoint", c.Consumer, s.Partition, s.Origin, s.Position,
				s.InFlightEnd, s.Session, s.Stamp); err != nil {
				return fmt.Errorf("control %s: %w", s.Partition, err)
			}
		}
	}
	if r := e.DropDeferred; r != nil {
		n, err := x.count(ctx, "DropDeferred", r.ID)
		if err == nil && n == 0 {
			err = store.ErrLost
		}
		if err != nil {
			return fmt.Errorf("drop deferred row %s: %w", r.ID, err)
		}
	}
	return nil
}
