// This file reports the state of a relay.

package relay

import (
	"context"
	"fmt"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/endpoint"
	"github.com/skald-go/skald/internal/vitals"
	"github.com/skald-go/skald/store"
)

// Health is the state of a relay. An outage of the database or the broker makes the relay not ready. The
// relay stays live, because a restart does not end the outage. docs/operations.md lists the report for each
// fault, and its delay.
type Health struct {
	Live   bool   // false only after Run has ended
	Ready  bool   // the database and the broker answer
	Why    string // why the relay is not ready: one line, the innermost cause first
	Shards int    // the number of owned shards
	// Polls is the reason why the relay polls and is not notified of commits. If another program reads the
	// replication slot, Polls is the reason why positions do not follow the slot. It is "" if everything
	// works as configured.
	Polls string

	// Published and Deferred count rows since New. A row counts again if the relay repeats it after a crash
	// or a failure.
	Published, Deferred int64
	// PushedBack has the topics that accept no rows, with the last error. For example, a queue or stream is
	// full. The relay defers the rows of these topics with their keys, and retries them at growing intervals.
	// The relay is still ready, because other keys continue. A topic is removed two minutes after its last
	// failure.
	PushedBack map[string]string
}

// Health returns the state of r. It is safe for concurrent use.
func (r *Relay) Health() Health {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.health
	h.Ready = h.Live && r.storeAway == "" && r.brokerAway == ""
	if r.listener != nil {
		h.Polls = r.listener.Listening().Why
	}
	store, _ := r.storeVitals.Away()
	bus, _ := r.brokerVitals.Away()
	for _, why := range []string{store, r.storeAway, bus, r.brokerAway} {
		if h.Why == "" && why != "" {
			h.Ready, h.Why = false, why
		}
	}
	return h
}

// Status returns the state in the form that skald.Run and package health need.
func (r *Relay) Status() skald.Status {
	h := r.Health()
	return skald.Status{Name: "relay", Stage: skald.Publishing, Live: h.Live, Ready: h.Ready, Why: h.Why}
}

// noteOutage records an outage, or its end if err is nil. isNew is true if an outage starts or ends.
func (r *Relay) noteOutage(what *string, err error) (isNew bool) {
	why := ""
	if err != nil {
		why = vitals.Why(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	isNew = (why == "") != (*what == "")
	*what = why
	return isNew
}

func (r *Relay) count(f func(*Health)) {
	r.mu.Lock()
	f(&r.health)
	r.mu.Unlock()
}

// begin logs once which store and broker the relay uses.
func (r *Relay) begin(ctx context.Context) {
	if r.introduced {
		return
	}
	r.introduced = true
	r.o.Logger.InfoContext(ctx, "relay: publishing", "owner", r.o.Owner, "store", endpoint.DriverName(r.db),
		"broker", endpoint.DriverName(r.bus))
	endpoint.Warn(ctx, r.o.Logger.With("owner", r.o.Owner), "relay", r.db, r.bus)
}

// ready logs once how many shards the relay owns.
func (r *Relay) ready() {
	if n := len(r.shards); n > 0 && !r.leasedOnce {
		r.leasedOnce = true
		r.o.Logger.Info("relay: ready", "owner", r.o.Owner, "shards", n)
	}
}

// Backlog reads the backlog of the outbox. It is for callers of Step.
func (r *Relay) Backlog(ctx context.Context) (store.Backlog, error) {
	return store.ReadBacklog(ctx, r.db)
}

// Idle returns true if no committed row waits to be published, in any shard. Deferred rows do not count. Idle
// is for callers of Step: a Step without work may only mean that this relay has no shard.
func (r *Relay) Idle(ctx context.Context) (bool, error) {
	b, err := store.ReadBacklog(ctx, r.db)
	if err != nil {
		return false, fmt.Errorf("relay: read the backlog: %w", err)
	}
	return b.Pending == 0, nil
}

func (r *Relay) status() (shards int, ready bool) {
	h := r.Health()
	return h.Shards, h.Ready
}

// notNotified returns true if the source supports notifications of commits but does not receive them.
func (r *Relay) notNotified() bool { return r.listener != nil && r.listener.Listening().Why != "" }
