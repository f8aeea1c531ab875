package inbox

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/skald-go/skald/internal/backoff"
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

// calm is how long a broker that brings nothing must be without an error to be called back. A driver that
// reads in the background hears only now and then that it still cannot reach its broker: Kafka's every 2.5 s.
const calm = 5 * time.Second

// An brokerOutage is one of the broker: from the first error until the broker brings something, or gives no
// error for 5 s. An acknowledgement that it takes says nothing: a driver may keep that until it can send
// it.
type brokerOutage struct {
	log   *slog.Logger
	say   backoff.Rarely
	why   error
	last  time.Time
	alive bool
}

// newOutage makes an Outage of a broker that is there.
func newOutage(log *slog.Logger) *brokerOutage { return &brokerOutage{log: log, say: backoff.Seldom()} }

// Failed notes an error of the broker. It is logged at first, then more and more seldom.
func (o *brokerOutage) Failed(now time.Time, why error) {
	o.why, o.last, o.alive = why, now, false
	if level := vitals.BrokerLevel(why); o.say.DueAs(level, now) {
		what := "inbox: the broker is away"
		if level == slog.LevelError {
			what = "inbox: the broker refuses; check settings and rights"
		}
		o.log.Log(context.Background(), level, what, "error", why)
	}
}

// Received notes that the broker brought n things.
func (o *brokerOutage) Received(n int) { o.alive = o.alive || n > 0 }

// Over ends the outage if the broker is back.
func (o *brokerOutage) Over(now time.Time) {
	if o.why == nil || !o.alive && now.Sub(o.last) < calm {
		return
	}
	if o.why = nil; o.say.Over() {
		o.log.Info("inbox: the broker is back")
	}
}

// Why is the last error while the outage lasts; nil: there is none.
func (o *brokerOutage) Why() error { return o.why }
