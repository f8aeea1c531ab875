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

// slack is added to Timeouts.Handle and Timeouts.Wait. If messages are ready and none is finished for this
// time, the consumer is not ready.
const slack = 15 * time.Second

// facts has the inputs of Health.Ready.
type facts struct {
	store, broker *vitals.Server
	settled       time.Time // when a message was last settled, or the last time that none was in progress
	still         string    // that no message is finished; "": some are, or none waits
}

// watch asks servers that have not answered lately, until ctx ends or stop is called.
func (f *facts) watch(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var both sync.WaitGroup
	both.Go(func() { f.store.Watch(ctx) })
	both.Go(func() { f.broker.Watch(ctx) })
	return func() { cancel(); both.Wait() }
}

// called notes the result of a call of the store.
func (in *Inbox[TTx]) called(ctx context.Context, err error) {
	switch {
	case err == nil:
		in.facts.store.Answered()
	case in.exec.Unavailable(err):
		in.suspectOutage(ctx)
	}
}

// watchProgress notes if no message is finished although some are running or ready.
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

// judge sets Ready to false if a server is away or no message is finished. The database comes first.
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

// calm is how long a broker without deliveries must be without an error before its outage is over. A driver
// that reads in the background reports a lasting error only at intervals: Kafka's every 2.5 s.
const calm = 5 * time.Second

// brokerOutage lasts from the first error of the broker until it delivers something, or until calm without
// an error. A successful acknowledgement does not end it: a driver may buffer that while the broker is away.
type brokerOutage struct {
	log   *slog.Logger
	say   backoff.LogLimit
	why   error
	last  time.Time
	alive bool
}

// newOutage returns the state of a broker without an outage.
func newOutage(log *slog.Logger) *brokerOutage {
	return &brokerOutage{log: log, say: backoff.NewLogLimit()}
}

// Failed notes an error of the broker. It logs the first one, and then at growing intervals.
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
	if o.say.DueAs(level, now) {
		o.log.Log(context.Background(), level, what, "error", why)
	}
}

// Received notes that the broker delivered n partitions and messages.
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

// Why returns the last error of an outage, or nil if there is no outage.
func (o *brokerOutage) Why() error { return o.why }
