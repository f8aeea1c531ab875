package operate

import (
	"context"
	"fmt"
)

// Release makes the selected parked messages due now, and sets their attempts to zero. A running consumer
// handles them within seconds, and those of one key in order. Release leaves out messages that Order.Run
// has released before. The report is also valid if the error is a *PartialError.
func Release(ctx context.Context, db RedriveStore, s Selection, o Order) (Report, error) {
	s.Dead = false
	if o.Run != "" && !o.DryRun {
		done, err := releasedBy(ctx, db, o.Run)
		if err != nil {
			return Report{}, fmt.Errorf("release: read the earlier releases of the run: %w", err)
		}
		s.except = done
	}
	return changeAll(ctx, db, "release", &s, &o, requeue)
}

// releasedBy returns the messages that the run with this ID has changed.
func releasedBy(ctx context.Context, db RedriveStore, run string) (map[runTarget]bool, error) {
	done := map[runTarget]bool{}
	for a, err := range runAudits(ctx, db, run, 0) {
		if err != nil {
			return nil, err
		}
		if a.ID != "" { // without an ID the audit is about the run itself
			done[runTarget{Consumer: a.Consumer, Identity: a.Identity}] = true
		}
	}
	return done, nil
}
