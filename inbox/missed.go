// This file tells of messages that the broker removed before a consumer had them: nothing here can bring
// them back.

package inbox

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/store"
)

// action is what an audit says that is about messages that were removed unread.
const action = "missed"

// A removedStore has the audit.
type removedStore interface {
	Apply(ctx context.Context, es ...store.Effect) ([]bool, error)
}

// tell logs m, and notes it in the audit, where doctor finds it. The note is made beside all else: where the
// database is away, the log has it. Log names the consumer.
func tell(ctx context.Context, db removedStore, log *slog.Logger, consumer string, m broker.Missed) {
	why := fmt.Sprintf(
		"%d messages of partition %s, from %d to below %d, were removed at the broker before they were read",
		m.Count, m.Partition, m.From, m.To)
	log.ErrorContext(ctx,
		"inbox: messages were removed unread: by retention or a purge; have them sent again",
		"partition", m.Partition, "from", m.From, "to", m.To, "messages", m.Count)
	note := store.Audit{Author: "skald", Action: action, Reason: why, Consumer: consumer}
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if _, err := db.Apply(ctx, store.Effect{Audit: &note}); err != nil {
			log.WarnContext(ctx, "inbox: note what was removed unread", "note", why, "error", err)
		}
	}()
}
