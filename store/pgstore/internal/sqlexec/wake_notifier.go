package sqlexec

import (
	"context"
	"sync"
	"time"
)

// channel carries the names of schemas that were written to.
const channel = "skald_outbox"

const (
	notifyGap = 20 * time.Millisecond // between two notifications of one process
	// for a connection and the answer; relays find the rows without it, too
	notifyWait = time.Second
)

// A notifier tells other processes of writes in this one, never in the caller's transaction: there a NOTIFY
// makes all commits of a database wait for one another.
type notifier struct {
	send func(ctx context.Context)

	mu      sync.Mutex
	pending bool
	last    time.Time
}

// tell has one notification sent soon, however many writes there are until then.
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
	n.pending, n.last = false, time.Now() // before it is sent: a write from here on has one of its own
	n.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), notifyWait)
	defer cancel()
	n.send(ctx)
}
