// This file decides whether the broker is away, and logs it.

package inbox

import (
	"context"
	"log/slog"
	"time"

	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/internal/vitals"
)

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
