package operate

import (
	"context"
	"fmt"
)

// Release makes the selected parked messages due now, with a new count of attempts. The running consumer
// handles them within seconds, those of one key in order. Messages that Order.Run has released before are
// left. With a *PartialError the report is valid, too.
func Release(ctx context.Context, db RedriveStore, s Selection, o Order) (Report, error) {
	s.Dead = false
	if o.Run != "" && !o.DryRun {
		done, err := releasedBy(ctx, db, o.Run)
		if err != nil {
			return Report{}, fmt.Errorf("release: read the earlier releases of the run: %w", err)
		}
		s.but = done
	}
	return changeAll(ctx, db, "release", &s, &o, requeue)
}

// releasedBy returns the messages that a run has changed.
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
