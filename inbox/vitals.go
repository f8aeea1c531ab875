package inbox

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/skald-go/skald/internal/vitals"
)

// slack is how much longer than a handler and its intake may take nothing may be finished, while messages are
// at work or could be, before the consumer counts as standing still.
const slack = 15 * time.Second

// facts are what Ready is computed from.
type facts struct {
	store, broker *vitals.Server
	settled       time.Time // when a message was last settled, or the last time that none was at work
	still         string    // why nothing is finished; "": something is, or nothing waits
}

// watch asks the servers that give no sign, until ctx ends and stop is called.
func (f *facts) watch(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var both sync.WaitGroup
	both.Go(func() { f.store.Watch(ctx) })
	both.Go(func() { f.broker.Watch(ctx) })
	return func() { cancel(); both.Wait() }
}

// called notes how a call of the store ended.
func (in *Inbox[TTx]) called(ctx context.Context, err error) {
	switch {
	case err == nil:
		in.facts.store.Answered()
	case in.exec.Away(err):
		in.suspectOutage(ctx)
	}
}

// watchProgress notes whether messages are finished, where some are at work or could be.
func (l *loop[TTx]) watchProgress() {
	in, now := l.in, time.Now()
	busy := l.running > l.stuck || in.pick.Startable(l.working())
	most := in.o.Timeouts.Handle + in.o.Timeouts.Wait + slack
	still := ""
	switch {
	case !busy || in.allStuck != "":
		in.facts.settled = now
	case !in.facts.settled.IsZero() && now.Sub(in.facts.settled) > most:
		still = fmt.Sprintf("messages wait, and none was finished since %s",
			in.facts.settled.UTC().Format(time.TimeOnly))
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.facts.still = still
}

// judge takes Ready back where a fact is against it. The store comes first: without it nothing else is known.
func (in *Inbox[TTx]) judge(h *Health) {
	if !h.Live {
		return
	}
	for _, s := range []*vitals.Server{in.facts.store, in.facts.broker} {
		if why, _ := s.Away(); why != "" {
			h.Ready, h.Why = false, why
			return
		}
	}
	if in.facts.still != "" && h.Ready {
		h.Ready, h.Why = false, in.facts.still
	}
}
