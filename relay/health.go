package relay

import (
	"context"
	"fmt"
)

// Health says how a relay does. An outage of database or broker is "not ready", never "not live".
type Health struct {
	Live  bool   // false only when Run has ended
	Ready bool   // database and broker answer
	Why   string // it is not ready
	Lanes int    // held now

	// Counts of this process, since New. A repeat after a crash or a failure counts again.
	Published, SetAside int64
}

// Health may be called at any time from any goroutine.
func (r *Relay) Health() Health {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.health
	h.Ready = h.Live && r.storeAway == "" && r.brokerAway == ""
	for _, why := range []string{r.storeAway, r.brokerAway} {
		if h.Why == "" {
			h.Why = why
		}
	}
	return h
}

// away notes an outage, or with nil its end, and tells whether that is new.
func (r *Relay) away(what *string, err error) (isNew bool) {
	why := ""
	if err != nil {
		why = err.Error()
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

// Quiet tells whether nothing that was committed waits to be published, whichever relay holds its lane. Rows that were set
// aside do not count. It is for those who step a relay: a Step that had nothing to do may have had no lane.
func (r *Relay) Quiet(ctx context.Context) (bool, error) {
	b, err := r.db.Backlog(ctx)
	if err != nil {
		return false, fmt.Errorf("relay: look for what is pending: %w", err)
	}
	return b.Pending == 0, nil
}
