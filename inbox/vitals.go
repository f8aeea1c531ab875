// This file finds outages of the database and the broker, and a consumer that makes no progress.

package inbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/skald-go/skald/inbox/internal/checkpoint"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/internal/vitals"
)

// slack is the extra time of watchProgress. If messages are ready and none is finished within
// Timeouts.Handle, Timeouts.Wait and slack together, the consumer is not ready.
const slack = 15 * time.Second

// facts has the inputs of Health.Ready.
type facts struct {
	store, broker *vitals.Server
	settled       time.Time // when a message was last settled, or no message was in progress
	still         string    // why there is no progress; "" if there is, or no message waits
}

// watch probes the database and the broker if they have not answered lately, until ctx ends or the caller
// calls stop.
func (f *facts) watch(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var both sync.WaitGroup
	both.Go(func() { f.store.Watch(ctx) })
	both.Go(func() { f.broker.Watch(ctx) })
	return func() { cancel(); both.Wait() }
}

// noteCall records the result of a call of the store.
func (in *Inbox[TTx]) noteCall(ctx context.Context, err error) {
	switch {
	case err == nil:
		in.facts.store.Answered()
	case in.exec.Unavailable(err):
		in.suspectOutage(ctx)
	}
}

// watchProgress sets facts.still if no message is finished although some are running or ready.
func (l *loop[TTx]) watchProgress() {
	in, now := l.in, time.Now()
	busy := l.running > 0 || in.pick.Startable(l.running)
	most := in.o.Timeouts.Handle + in.o.Timeouts.Wait + slack
	still := ""
	switch {
	case !busy || in.allStuck != "":
		in.facts.settled = now
	case !in.facts.settled.IsZero() && now.Sub(in.facts.settled) > most:
		still = fmt.Sprintf("messages wait, and none has been finished since %s",
			in.facts.settled.UTC().Format(time.TimeOnly))
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.facts.still = still
}

// judge sets Ready to false if the database or the broker is unavailable, or no message is finished. Why
// names the database first.
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

// calm is how long the broker must be without an error before its outage is over, if it delivers nothing. A
// driver that reads in the background reports a lasting error only at intervals: Kafka's driver every 2.5 s.
const calm = 5 * time.Second

// brokerOutage is the state of an outage of the broker. An outage lasts from the first error until the broker
// delivers something, or until no error came for the time calm. A successful acknowledgement does not end it:
// a driver may buffer acknowledgements while the broker is unavailable.
type brokerOutage struct {
	log   *slog.Logger
	limit backoff.LogLimit
	why   error     // the last error; nil if there is no outage
	last  time.Time // when it came
	alive bool      // the broker delivered something since
}

// newOutage returns the state of a broker without an outage.
func newOutage(log *slog.Logger) *brokerOutage {
	return &brokerOutage{log: log, limit: backoff.NewLogLimit()}
}

// Failed records an error of the broker. It logs the first one, and then at growing intervals.
func (o *brokerOutage) Failed(now time.Time, why error) {
	o.why, o.last, o.alive = why, now, false
	level, what := vitals.BrokerLevel(why), "inbox: the broker is away"
	var ofStore *checkpoint.StoreError
	switch {
	case errors.As(why, &ofStore):
		level, what = vitals.Level(why), "inbox: cannot join: the database is away"
	case level == slog.LevelError:
		what = "inbox: the broker refuses; check settings and rights"
	}
	if o.limit.DueAs(level, now) {
		o.log.Log(context.Background(), level, what, "error", why)
	}
}

// Received records that the broker delivered n partitions and messages.
func (o *brokerOutage) Received(n int) { o.alive = o.alive || n > 0 }

// Over ends the outage if the broker is back.
func (o *brokerOutage) Over(now time.Time) {
	if o.why == nil || !o.alive && now.Sub(o.last) < calm {
		return
	}
	if o.why = nil; o.limit.Over() {
		o.log.Info("inbox: the broker is back")
	}
}

// Why returns the last error of an outage, or nil if there is no outage.
func (o *brokerOutage) Why() error { return o.why }
