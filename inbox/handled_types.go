package inbox

import (
	"context"

	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/backoff"
)

// enroll notes which types this build handles, before it joins the group. Where other builds may
// not have read that yet, Run waits until each has: from then on, none skips them.
func (in *Inbox[TTx]) enroll(ctx context.Context) error {
	first, wait, err := in.checkpoints.Enroll(ctx)
	if err != nil {
		return err
	}
	if first {
		in.said.Renamed(ctx)
	}
	if wait > 0 && !backoff.Sleep(ctx, wait) {
		in.checkpoints.Unsure()
		return ctx.Err()
	}
	return nil
}

// skip is done with a message that no build handles; one that another build handles is taken, so as to be
// left to it. A message without a type may be any message, so it becomes a dead letter.
func (in *Inbox[TTx]) skip(e *partition.Entry) {
	k := e.Kind()
	others := in.checkpoints.LeftToOthers(k)
	e.Untyped = !others && k.Type == ""
	if e.Foreign = others || e.Untyped; !e.Foreign {
		e.Done = true
		in.count(func(h *Health) { h.Skipped++ })
		in.tel.Count(e.Topic, "skipped")
		in.said.Skipped(k)
		return
	}
	if others {
		in.said.Left(k)
	}
}
