package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald/internal/retention"
	"github.com/skald-go/skald/store"
)

// MaintainStore is the part of a store that Maintain needs.
type MaintainStore interface {
	Applier
	store.StatusReader
	Maintain(ctx context.Context, m store.Maintain) (store.Maintained, error)
}

// MaintainReport counts the deleted rows. In a dry run it counts the rows that would be deleted.
type MaintainReport struct {
	store.Maintained
	Keep   store.Retention // the new retention, with the defaults for zero fields
	Before store.Retention // the retention that was last applied; zero if none was applied
	Oldest time.Duration   // the age of the oldest row before the call; 0 without rows
}

// ShorterError reports that the new retention is shorter than the last one, so nothing was deleted. A shorter
// retention deletes marks early, and a consumer handles a duplicate again if the mark is deleted.
type ShorterError struct{ Keep, Before store.Retention }

func (e *ShorterError) Error() string {
	return fmt.Sprintf("the retention becomes shorter: it was %s; the new one is %s", spell(e.Before), spell(e.Keep))
}

func spell(r store.Retention) string {
	return fmt.Sprintf("rows %s, marks %s, steps %s, sagas %s", retention.Spell(r.Outbox),
		retention.Spell(r.Marks), retention.Spell(r.Steps), retention.Spell(r.Sagas))
}

// Maintain deletes all data that is older than maxAge, as relays also do in small parts. If maxAge is
// shorter than the last retention, Maintain returns a *ShorterError, unless shorter is set. Maintain needs
// the rights of a relay, and INSERT on skald_audit.
func Maintain(ctx context.Context, db MaintainStore, maxAge store.Retention, shorter bool,
	o Order) (r MaintainReport, err error) {
	if err := checkOrder(&o); err != nil {
		return r, err
	}
	if r.Keep, err = retention.OrDefaults(maxAge); err != nil {
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
		return r, fmt.Errorf("record the order: %w", err)
	}
	for more := true; more; {
		did, err := db.Maintain(ctx, store.Maintain{Keep: r.Keep})
		if err != nil {
			return r, err
		}
		r.Rows, r.Marks = addCounts(r.Rows, did.Rows), addCounts(r.Marks, did.Marks)
		r.Steps, r.Sagas = r.Steps+did.Steps, r.Sagas+did.Sagas
		r.Left, more = did.Left, did.More
	}
	return r, nil
}

// addCounts adds two numbers of deleted rows. -1 means that a table was truncated and not counted, so a sum
// with -1 is -1.
func addCounts(sum, n int64) int64 {
	if sum < 0 || n < 0 {
		return -1
	}
	return sum + n
}
