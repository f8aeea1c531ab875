package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/partition"
)

// seenConfig is what repeats are dropped by before they are taken.
func (in *Inbox[TTx]) seenConfig() seenConfig {
	return seenConfig{
		Group: in.group, DB: in.db, Session: in.session, Cache: in.o.Front.Seen, Again: in.o.Identity.Again,
		Attempt: in.exec,
		Read:    func(ctx context.Context, err error) { in.did(ctx, lookingUp, err) },
		Repeat: func(e *partition.Entry, cached bool) {
			in.count(func(h *Health) {
				h.Duplicates++
				if cached {
					h.Cached++
				}
			})
			in.tel.Count(e.Topic, decide.Duplicate.String())
		},
	}
}

// checkCache refuses a cache that remembers for longer than marks do.
func (in *Inbox[TTx]) checkCache(marks time.Duration) error {
	if in.o.Front.Seen == nil || in.o.Front.Seen.TTL() > 0 && in.o.Front.Seen.TTL() <= marks {
		return nil
	}
	return fmt.Errorf("inbox.Options.Front.Seen remembers for %v, marks are kept for %v: give the cache a TTL above 0 and within that, or keep marks for longer",
		in.o.Front.Seen.TTL(), marks)
}
