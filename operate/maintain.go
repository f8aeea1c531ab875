package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald/internal/retention"
	"github.com/skald-go/skald/store"
)

// A Maintainer is what Maintain asks of a store.
type Maintainer interface {
	Applier
	store.Teller
	Maintain(ctx context.Context, m store.Maintain) (store.Maintained, error)
}

// A MaintainReport tells what went; in a dry run, would go.
type MaintainReport struct {
	store.Maintained
	Keep   store.Retention // with the defaults
	Before store.Retention // what it went by last; zero: never
	Oldest time.Duration   // since the oldest row was written, before; 0: there is none
}

// A ShorterError says that less is to be kept than before: what is forgotten so is no repeat any more when it
// comes again. Nothing has changed.
type ShorterError struct{ Keep, Before store.Retention }

func (e *ShorterError) Error() string {
	return fmt.Sprintf("before, these were kept: %s; now it is to be: %s", spell(e.Before), spell(e.Keep))
}

func spell(r store.Retention) string {
	return fmt.Sprintf("rows %s, marks %s, steps %s, sagas %s", retention.Spell(r.Outbox),
		retention.Spell(r.Marks), retention.Spell(r.Steps), retention.Spell(r.Sagas))
}

// Maintain empties what is older than keep, as relays do by themselves, until nothing is left that can be
// had. Keeping something for a shorter time than before is a *ShorterError, unless shorter is set. A dry run
// counts what would go, one by one. It needs the rights of a relay, and INSERT on skald_audit.
func Maintain(ctx context.Context, db Maintainer, keep store.Retention, shorter bool,
	o Order) (r MaintainReport, err error) {
	if err := checkOrder(&o); err != nil {
		return r, err
	}
	if r.Keep, err = retention.OrDefaults(keep); err != nil {
		return r, err
	}
	status, err := db.Status(ctx, store.StatusQuery{Backlog: true, Retention: true})
	if err != nil {
		return r, err
	}
	r.Before, r.Oldest = status.Retention, status.Retained
	if o.DryRun {
		r.Maintained, err = db.Maintain(ctx, store.Maintain{Keep: r.Keep, DryRun: true})
		return r, err
	}
	if k, was := r.Keep, r.Before; !shorter && (k.Outbox < was.Outbox || k.Marks < was.Marks ||
		k.Steps < was.Steps || k.Sagas < was.Sagas) {
		return r, &ShorterError{k, was}
	}
	if _, err := applyEffect(ctx, db, store.Effect{Audit: auditOf(&o, "maintain", "",
		store.Identity{ID: spell(r.Keep)})}); err != nil {
		return r, fmt.Errorf("note who does it: %w", err)
	}
	for more := true; more; {
		did, err := db.Maintain(ctx, store.Maintain{Keep: r.Keep})
		if err != nil {
			return r, err
		}
		r.Rows, r.Marks, r.Steps = added(r.Rows, did.Rows), added(r.Marks, did.Marks), r.Steps+did.Steps
		r.Sagas += did.Sagas
		r.Left, more = did.Left, did.More
	}
	return r, nil
}

// added: whole slots were not counted.
func added(sum, n int64) int64 {
	if sum < 0 || n < 0 {
		return -1
	}
	return sum + n
}
