package operate

import (
	"context"
	"fmt"

	"github.com/skald-go/skald/store"
)

// Release has the selected parked messages tried now, with a new count of attempts. The running consumer
// takes them within seconds, of one key in their order. Those that Order.Run has released before are left.
// With a *PartlyError the report is valid, too.
func Release(ctx context.Context, db Redriver, s Selection, o Order) (Report, error) {
	s.Dead = false
	if o.Run != "" && !o.DryRun {
		done, err := releasedBy(ctx, db, o.Run)
		if err != nil {
			return Report{}, fmt.Errorf("release: look at what the run has released: %w", err)
		}
		s.but = done
	}
	return changeAll(ctx, db, "release", &s, &o, requeue)
}

// releasedBy are the messages that a run has changed by now.
func releasedBy(ctx context.Context, db Redriver, run string) (map[whose]bool, error) {
	done := map[whose]bool{}
	for after := int64(0); ; {
		list, err := db.Audits(ctx, store.AuditQuery{Run: run, After: after, Limit: auditPage})
		if err != nil {
			return nil, err
		}
		for i := range list {
			if after = list[i].Number; list[i].ID != "" { // else it is about the run
				done[whose{list[i].Consumer, list[i].Identity}] = true
			}
		}
		if len(list) < auditPage {
			return done, nil
		}
	}
}
