package inbox

import (
	"context"
	"time"

	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/store"
)

const (
	// keepEvery is how often the instance that has the lease looks, and how often the others ask for it.
	keepEvery = 10 * time.Minute
	// keepLease is how long it is that instance's: one that died is followed by another within 25 minutes.
	keepLease = 15 * time.Minute
)

// keep sees to the retention until ctx is done, where no relay does: one of all instances by a lease,
// whatever consumers of this database they are of. Two that both believe to have it do no harm: each slot
// goes under its own lock.
func (in *Inbox[TTx]) keep(ctx context.Context) {
	if in.o.Retention.Keep == nil {
		return
	}
	defer in.disown(ctx)
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for {
		more, err := in.maintain(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			in.o.Logger.WarnContext(ctx, "inbox: retention", "consumer", in.group, "error", err)
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

func (in *Inbox[TTx]) maintain(ctx context.Context) (more bool, err error) {
	did, err := in.db.Maintain(ctx, store.Maintain{Keep: *in.o.Retention.Keep, Owner: in.session,
		Lease: keepLease})
	if err == nil && (did.Rows != 0 || did.Marks != 0 || did.Steps != 0 || len(did.Left) > 0) {
		in.o.Logger.InfoContext(ctx, "inbox: retention", "consumer", in.group, "rows", did.Rows, "marks", did.Marks, "steps", did.Steps, "left", did.Left)
	}
	return err == nil && did.More, err
}

// disown gives the lease back, so that the next instance need not wait for its end.
func (in *Inbox[TTx]) disown(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if _, err := in.db.Maintain(ctx, store.Maintain{Owner: in.session, Leave: true}); err != nil {
		in.o.Logger.WarnContext(ctx, "inbox: give the lease on the retention back", "consumer", in.group, "error", err)
	}
}

// seldom is how often an outage is told while it lasts.
func seldom() backoff.Rarely { return backoff.Rarely{First: 20 * time.Second, Most: 10 * time.Minute} }

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
