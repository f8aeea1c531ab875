package relay

import (
	"context"
	"fmt"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/endpoint"
	"github.com/skald-go/skald/internal/vitals"
	"github.com/skald-go/skald/store"
)

// Health is the state of a relay. An outage of database or broker makes the relay not ready. The relay stays
// live, because a restart cures neither outage. docs/operations.md lists the report for each fault, and its
// delay.
type Health struct {
	Live   bool   // false only after Run has ended
	Ready  bool   // database and broker answer
	Why    string // why the relay is not ready: one line, the innermost cause first
	Shards int    // owned now
	// Polls is the reason why the relay polls and is not notified of commits. If another program reads the
	// replication slot, Polls is the reason why positions do not follow the slot. It is empty if everything
	// works as configured.
	Polls string

	// Published and Deferred count the rows of this process since New. A row that is repeated after a crash
	// or a failure counts again.
	Published, Deferred int64
	// PushedBack has the topics that accept no more rows, with the last error. The reason can be a full queue
	// or stream. The rows of these topics are deferred, so their keys wait, and are retried at growing
	// intervals. The relay is still ready, because other keys continue. A topic is removed two minutes after
	// its last failure.
	PushedBack map[string]string
}

// Health returns the state. It is safe for concurrent use.
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

// Status returns the state for skald.Run and package health.
func (r *Relay) Status() skald.Status {
	h := r.Health()
	return skald.Status{Name: "relay", Stage: skald.Publishing, Live: h.Live, Ready: h.Ready, Why: h.Why}
}

// away records an outage, or with nil its end, and reports whether that is new.
func (r *Relay) away(what *string, err error) (isNew bool) {
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
	r.o.Logger.InfoContext(ctx, "relay: carrying", "owner", r.o.Owner, "store", endpoint.DriverName(r.db),
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

// Backlog reads the backlog of the outbox, for callers of Step.
func (r *Relay) Backlog(ctx context.Context) (store.Backlog, error) {
	return store.ReadBacklog(ctx, r.db)
}

// Idle returns true if no committed row waits to be published, in the shards of any relay. Deferred rows do
// not count. Idle is for callers of Step, because a Step may do no work only because its relay had no shard.
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

// notNotified reports whether the source should be notified of commits but is not.
func (r *Relay) notNotified() bool { return r.listener != nil && r.listener.Listening().Why != "" }
