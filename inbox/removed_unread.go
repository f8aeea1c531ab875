package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/store"
)

// auditMissed is what an audit says that is about messages that were removed unread.
const auditMissed = "missed"

// misses tells of messages that the broker removed before this consumer had them: nothing here can bring them
// back. It is logged, counted, and noted in the audit, where doctor finds it. The note is made beside all
// else: where the database is away, the log has it.
func (in *Inbox[TTx]) misses(ctx context.Context, all []broker.Missed) {
	for _, m := range all {
		in.count(func(h *Health) { h.Missed += m.Count })
		in.tel.Missed(m.Count)
		why := fmt.Sprintf("%d messages of partition %s, from %d to below %d, were removed at the broker before they were read", m.Count, m.Partition, m.From, m.To)
		in.o.Logger.ErrorContext(ctx, "inbox: messages were removed unread: by retention or a purge; have them sent again", "consumer", in.group,
			"partition", m.Partition, "from", m.From, "to", m.To, "messages", m.Count)
		note := store.Audit{Author: "skald", Action: auditMissed, Reason: why, Consumer: in.group}
		go func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			if _, err := in.db.Apply(ctx, store.Effect{Audit: &note}); err != nil {
				in.o.Logger.WarnContext(ctx, "inbox: note what was removed unread", "consumer", in.group, "note", why, "error", err)
			}
		}()
	}
}
