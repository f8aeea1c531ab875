package sqlexec

import (
	"context"
	"sync"
	"time"
)

// channel is the NOTIFY channel. The payload of a notification is the name of the schema with new rows.
const channel = "skald_outbox"

const (
	notifyGap = 20 * time.Millisecond // minimum time between two notifications of one process
	// notifyWait limits one notification. It is short, because relays also find the rows without a
	// notification.
	notifyWait = time.Second
)

// notifier notifies other processes of writes in this process. It sends outside of the writing transaction,
// because PostgreSQL runs commits with a NOTIFY one after the other.
type notifier struct {
	send func(ctx context.Context)

	mu      sync.Mutex
	pending bool
	last    time.Time
}

// schedule sends one notification for all writes within notifyGap.
func (n *notifier) schedule() {
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
