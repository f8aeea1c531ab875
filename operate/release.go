package operate

import "context"

// Release has the selected parked messages tried now, with a new count of attempts. The running consumer
// takes them within seconds, of one key in their order. With a *PartlyError the report is valid, too.
func Release(ctx context.Context, db Keeper, s Selection, o Order) (Report, error) {
	s.Dead = false
	return changeAll(ctx, db, "release", &s, &o, requeue)
}
