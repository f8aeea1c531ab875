package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// This file finishes parked messages for units above READ COMMITTED.
//
// There, the snapshot of a unit may be older than its lock of a key. The unit then does not see messages that
// a rival parked while the unit waited for the lock. So the unit must not choose the next message of the key:
// the key could stay blocked forever. The unit only checks that its own messages are still claimed. The store
// finishes these messages after the commit, at READ COMMITTED. If the process dies between the two commits,
// the claims expire, and the next claim finds the marks.

// splitQueue separates the changes of parked messages from the other effects, for a unit at this isolation
// level. The unit applies effects, and sends the returned calls in place of these changes. After the commit,
// the caller applies queue.
func (c *core) splitQueue(level store.Isolation, es []store.Effect) (effects, queue []store.Effect,
	calls []sqlexec.Call) {
	if isoLevel(level) == pgx.ReadCommitted {
		return es, nil, nil
	}
	for _, e := range es {
		if e.Finish != nil || e.Requeue != nil {
			queue = append(queue, store.Effect{Finish: e.Finish, Requeue: e.Requeue})
			calls = append(calls, c.kept.FinishUnordered(e)...)
			e.Finish, e.Requeue = nil, nil
		}
		effects = append(effects, e)
	}
	return effects, queue, calls
}

// settleQueue applies the changes that splitQueue separated. It returns no error, because the unit is already
// committed. After an error the key waits until the claims expire. Then the next claim repeats the changes.
func (c *core) settleQueue(ctx context.Context, queue []store.Effect) {
	if len(queue) == 0 {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer stop()
	for n := 1; ; n++ {
		_, err := c.Apply(ctx, queue...)
		pause := backoff.After(n, 10*time.Millisecond, time.Second)
		if err == nil || !Outage(err) || !backoff.Sleep(ctx, pause) {
			return
		}
	}
}

// settleTime limits settleQueue. It is long, because many callers may wait for a connection of a small pool.
const settleTime = 30 * time.Second
