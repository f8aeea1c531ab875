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

// quarantine puts a message where somebody decides. It is written there before the message is acknowledged,
// and a repeat changes nothing in it.
func (x *Executor[TTx]) quarantine(ctx context.Context, e *partition.Entry, unit store.Unit[TTx],
	d decide.Decision, print int64) Result {
	stands, err := unit.Rollback(ctx,
		store.Effect{Quarantine: apartOf(x.o.Group, e, d.Mark, print), Finish: x.freed(e)})
	switch {
	case err != nil:
		return x.storeFailed(ctx, e,
			fmt.Errorf("put %s into quarantine: %w", partition.Shown(e.Given.ID), err))
	case !stands[0]:
		return Result{Entry: e, What: decide.Stale} // it was claimed, and somebody else has it
	}
	x.tellApart(ctx, e, d.Mark)
	return Result{Entry: e, What: d.Ending}
}

// tellApart says that a message was put into quarantine: the first, and then now and then one, with how many
// came meanwhile.
func (x *Executor[TTx]) tellApart(ctx context.Context, e *partition.Entry, why store.Outcome) {
	n, due := x.untold.note(x.o.Now())
	if !due {
		return
	}
	x.o.Logger.WarnContext(ctx, "inbox: message put into quarantine; see: skald inbox status",
		"consumer", x.o.Group, "why", why.String(), "topic", e.Topic, "partition", e.Partition,
		"position", e.Position, "source", e.Given.Source, "id", e.Given.ID, "type", e.Type,
		"count_since_last_line", n)
}

func apartOf(consumer string, e *partition.Entry, why store.Outcome, print int64) *store.Quarantined {
	return &store.Quarantined{Consumer: consumer, Identity: e.Given, Fingerprint: print, Why: why,
		Message: e.Message}
}

// An apart is what was said of messages that were put into quarantine. It is for any goroutine.
type apart struct {
	mu     sync.Mutex
	say    backoff.LogLimit
	untold int // messages, since it was said last
}

// note counts a message, and tells whether it is to be said, and of how many.
func (a *apart) note(now time.Time) (n int, due bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.untold++
	if n, due = a.untold, a.say.Due(now); due {
		a.untold = 0
	}
	return n, due
}
