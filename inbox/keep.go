package inbox

import (
	"context"
	"time"
)

// keepEvery is how often each instance looks; one that finds nothing to empty asks some twenty cheap questions.
const keepEvery = 10 * time.Minute

// keep sees to the retention until ctx is done, where no relay does.
func (in *Inbox[TTx]) keep(ctx context.Context) {
	if in.o.Keep == nil {
		return
	}
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for {
		did, err := in.db.Maintain(ctx, *in.o.Keep)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			in.o.Logger.WarnContext(ctx, "inbox: retention", "consumer", in.group, "error", err)
		case did.Rows != 0 || did.Marks != 0 || len(did.Left) > 0:
			in.o.Logger.InfoContext(ctx, "inbox: retention", "consumer", in.group, "rows", did.Rows, "marks", did.Marks, "left", did.Left)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
