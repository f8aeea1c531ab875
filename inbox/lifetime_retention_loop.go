package inbox

import (
	"context"
	"log/slog"
	"time"

	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/store"
)

const (
	// keepEvery is how often the instance that has the lease looks, and how often the others ask for it.
	keepEvery = 10 * time.Minute
	// keepLease is how long it is that instance's: one that died is followed by another within 25 minutes.
	keepLease = 15 * time.Minute
	// startsWithin is how soon after an inbox a relay of its database has looked at the retention.
	startsWithin = 2 * time.Minute
)

// A markKeeper sees to the retention of a database.
type markKeeper struct {
	DB    store.Store
	Keep  *store.Retention // nil: it logs if nobody else does
	Owner string           // who it is, among all that have a lease
	Log   *slog.Logger     // that names the consumer
}

// Run sees to the retention until ctx is done, where no relay does: one of all instances by a lease,
// whatever consumers of this database they are of. Two that both believe to have it do no harm: each slot
// goes under its own lock.
func (k *markKeeper) Run(ctx context.Context) {
	if k.Keep == nil {
		if backoff.Sleep(ctx, startsWithin) { // a relay may start with this process
			k.missed(ctx)
		}
		return
	}
	defer k.disown(ctx)
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for {
		more, err := k.maintain(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			k.Log.WarnContext(ctx, "inbox: retention", "error", err)
		}
		if more {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// missed logs if nobody sees to the retention: then marks are kept for ever.
func (k *markKeeper) missed(ctx context.Context) {
	found, err := k.DB.Examine(ctx, store.Exam{})
	if err != nil {
		return // an outage, which others log
	}
	for _, f := range found { // what is fine has no remedy
		if f.Name == "retention" && f.Remedy != "" {
			k.Log.WarnContext(ctx, "inbox: nobody deletes expired marks", "saw", f.Saw, "remedy", f.Remedy)
		}
	}
}

func (k *markKeeper) maintain(ctx context.Context) (more bool, err error) {
	did, err := k.DB.Maintain(ctx, store.Maintain{Keep: *k.Keep, Owner: k.Owner, Lease: keepLease})
	if err == nil && (did.Rows != 0 || did.Marks != 0 || did.Steps != 0 || len(did.Left) > 0) {
		k.Log.InfoContext(ctx, "inbox: retention",
			"rows", did.Rows, "marks", did.Marks, "steps", did.Steps, "left", did.Left)
	}
	return err == nil && did.More, err
}

// disown gives the lease back, so that the next instance need not wait for its end.
func (k *markKeeper) disown(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if _, err := k.DB.Maintain(ctx, store.Maintain{Owner: k.Owner, Leave: true}); err != nil {
		k.Log.WarnContext(ctx, "inbox: give the lease on the retention back", "error", err)
	}
}
