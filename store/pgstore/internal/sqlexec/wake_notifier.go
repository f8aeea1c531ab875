package sqlexec

import (
	"context"
	"sync"
	"time"
)

// channel receives the names of schemas that were written to.
const channel = "skald_outbox"

const (
	notifyGap = 20 * time.Millisecond // minimum time between two notifications of one process
	// notifyWait limits the connection and the answer. Relays find the rows without a notification, too.
	notifyWait = time.Second
)

// notifier notifies other processes of writes in this one. It does so outside of the caller's transaction:
// a NOTIFY inside makes all commits of the database wait for one another.
type notifier struct {
	send func(ctx context.Context)

	mu      sync.Mutex
	pending bool
	last    time.Time
}

// tell sends one notification soon for all writes until then.
func (n *notifier) tell() {
	if n.send == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pending {
		return
	}
	n.pending = true
	time.AfterFunc(max(0, notifyGap-time.Since(n.last)), n.fire)
}

func (n *notifier) fire() {
	n.mu.Lock()
	n.pending, n.last = false, time.Now() // before sending: a later write needs its own
	n.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), notifyWait)
	defer cancel()
	n.send(ctx)
}
