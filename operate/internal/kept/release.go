package kept

import (
	"context"
	"fmt"

	"github.com/skald-go/skald/operate/internal/acts"
	"github.com/skald-go/skald/operate/internal/order"
)

// Release has parked messages tried now: see operate.Release.
func Release(ctx context.Context, db Redriver, s Selection, o order.Order) (order.Report, error) {
	s.Dead = false
	if o.Run != "" && !o.DryRun {
		done, err := releasedBy(ctx, db, o.Run)
		if err != nil {
			return order.Report{}, fmt.Errorf("release: look at what the run has released: %w", err)
		}
		s.but = done
	}
	return changeAll(ctx, db, "release", &s, &o, requeue)
}

// releasedBy are the messages that a run has changed by now.
func releasedBy(ctx context.Context, db Redriver, run string) (map[acts.Target]bool, error) {
	done := map[acts.Target]bool{}
	for a, err := range acts.Of(ctx, db, run, 0) {
		if err != nil {
			return nil, err
		}
		if a.ID != "" { // else it is about the run
			done[acts.Target{Consumer: a.Consumer, Identity: a.Identity}] = true
		}
	}
	return done, nil
}
