// This file puts messages into quarantine.

package exec

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/store"
)

// quarantine puts a message into quarantine for an operator. It writes the row before the inbox acknowledges
// the message. A duplicate does not change the row.
func (x *Executor[TTx]) quarantine(ctx context.Context, e *partition.Entry, unit store.Unit[TTx],
	d decide.Decision, print int64) Result {
	applied, err := unit.Rollback(ctx,
		store.Effect{Quarantine: newQuarantined(x.o.Group, e, d.Mark, print), Finish: x.finishParked(e)})
	switch {
	case err != nil:
		return x.storeFailed(ctx, e,
			fmt.Errorf("put %s into quarantine: %w", partition.Shown(e.Given.ID), err))
	case !applied[0]:
		return Result{Entry: e, What: decide.Stale} // another process has claimed it
	}
	x.logQuarantine(ctx, e, d.Mark)
	return Result{Entry: e, What: d.Ending}
}

// logQuarantine logs that a message was put into quarantine. It logs the first message, and later ones at
// growing intervals, with the number since the last line.
func (x *Executor[TTx]) logQuarantine(ctx context.Context, e *partition.Entry, why store.Outcome) {
	n, due := x.quarantined.count(x.o.Now())
	if !due {
		return
	}
	x.o.Logger.WarnContext(ctx, "inbox: message put into quarantine; see: skald inbox status",
		"consumer", x.o.Group, "why", why.String(), "topic", e.Topic, "partition", e.Partition,
		"position", e.Position, "source", e.Given.Source, "id", e.Given.ID, "type", e.Type,
		"count_since_last_line", n)
}

// newQuarantined returns the quarantine row of e.
func newQuarantined(consumer string, e *partition.Entry, why store.Outcome, print int64) *store.Quarantined {
	return &store.Quarantined{Consumer: consumer, Identity: e.Given, Fingerprint: print, Why: why,
		Message: e.Message}
}

// rareLog limits the log lines about messages in quarantine. It is safe for concurrent use.
type rareLog struct {
	mu       sync.Mutex
	limit    backoff.LogLimit
	unlogged int // messages since the last line
}

// count counts a message. It reports whether to log now, and returns the number of messages since the last
// line.
func (l *rareLog) count(now time.Time) (n int, due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unlogged++
	if n, due = l.unlogged, l.limit.Due(now); due {
		l.unlogged = 0
	}
	return n, due
}
