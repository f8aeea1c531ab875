package relay

import (
	"context"
	"fmt"

	"github.com/skald-go/skald/internal/endpoint"
	"github.com/skald-go/skald/internal/vitals"
	"github.com/skald-go/skald/store"
)

// Health is how a relay does. An outage of database or broker makes it not ready, never not live: a restart
// cures none. docs/operations.md has what is reported for each fault, and how soon.
type Health struct {
	Live   bool   // false only when Run has ended
	Ready  bool   // database and broker answer
	Why    string // it is not ready: one line, the innermost cause first
	Shards int    // held now
	// Polls is why the relay polls instead of hearing of commits, or why its positions do not follow the slot
	// that another program reads. "": all is as configured.
	Polls string

	// Counts of this process, since New. A repeat after a crash or a failure counts again.
	Published, Deferred int64
	// PushedBack are the topics that do not take what they are given, and why: a queue or a stream that is
	// full. Their rows are set aside, with their keys, and tried at growing intervals. It is ready all the
	// same: other keys go on. A topic is left out two minutes after its last failure.
	PushedBack map[string]string
}

// Health may be called at any time from any goroutine.
func (r *Relay) Health() Health {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.health
	h.Ready = h.Live && r.storeAway == "" && r.brokerAway == ""
	if r.hearer != nil {
		h.Polls = r.hearer.Hearing().Why
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

// away notes an outage, or with nil its end, and tells whether that is new.
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

// begin says, once, where the relay works.
func (r *Relay) begin(ctx context.Context) {
	if r.introduced {
		return
	}
	r.introduced = true
	r.o.Logger.InfoContext(ctx, "relay: carrying", "owner", r.o.Owner, "store", endpoint.DriverName(r.db),
		"broker", endpoint.DriverName(r.bus))
	endpoint.WarnUnencrypted(ctx, r.o.Logger.With("owner", r.o.Owner), "relay: no TLS", r.db, r.bus)
}

// ready says, once, how many shards the relay holds.
func (r *Relay) ready() {
	if n := len(r.shards); n > 0 && !r.leasedOnce {
		r.leasedOnce = true
		r.o.Logger.Info("relay: ready", "owner", r.o.Owner, "shards", n)
	}
}

// Backlog tells how the outbox stands, for those who step a relay.
func (r *Relay) Backlog(ctx context.Context) (store.Backlog, error) {
	return store.ReadBacklog(ctx, r.db)
}

// Quiet tells whether nothing that was committed waits to be published, whichever relay holds its shard. Rows
// that were set aside do not count. It is for those who step a relay: a Step that had nothing to do may have
// had no shard.
func (r *Relay) Quiet(ctx context.Context) (bool, error) {
	b, err := store.ReadBacklog(ctx, r.db)
	if err != nil {
		return false, fmt.Errorf("relay: look for what is pending: %w", err)
	}
	return b.Pending == 0, nil
}

func (r *Relay) standing() (shards int, ready bool) {
	h := r.Health()
	return h.Shards, h.Ready
}

// deaf tells whether the source is to hear of commits and cannot.
func (r *Relay) deaf() bool { return r.hearer != nil && r.hearer.Hearing().Why != "" }
