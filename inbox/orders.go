package inbox

import (
	"context"
	"fmt"

	"github.com/skald-go/skald/inbox/internal/breaker"
	"github.com/skald-go/skald/internal/control"
	"github.com/skald-go/skald/store"
)

// steering is what operators told this consumer. It belongs to the goroutine of Run or Step; skips are read
// by workers too.
type steering struct {
	read bool // once, at least
	now  control.Orders
}

// steer takes up what operators told the consumer: it stands among the positions, which are read anyway.
func (in *Inbox[TTx]) steer(ctx context.Context, checkpoints []store.Checkpoint) {
	s, next := &in.steering, control.Read(checkpoints)
	if s.read && next.Resumed != s.now.Resumed {
		in.breaker = breaker.New(breaker.Limits(in.o.Breaker))
		in.sources.Clear()
		in.o.Logger.WarnContext(ctx, "inbox: an operator has the consumer go on", "consumer", in.group)
	}
	if was := s.now.Paused; next.Paused != nil && (was == nil || *was != *next.Paused) {
		in.o.Logger.WarnContext(ctx, "inbox: an operator has the consumer pause: skald inbox resume", "consumer", in.group, "who", next.Paused.Who, "why", next.Paused.Why)
	}
	s.read, s.now = true, next
	in.exec.Skip(next.Skipped)
}

// paused says who paused the consumer and why; "": nobody.
func (s *steering) paused() string {
	if s.now.Paused == nil {
		return ""
	}
	return fmt.Sprintf("paused by %s: %s: skald inbox resume ends that", s.now.Paused.Who, s.now.Paused.Why)
}
