package sqlexec

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/skald-go/skald/store"
)

// turnstile admits one transaction of this process at a time, in order of arrival. Without a turnstile,
// waiting transactions would poll for SQLite's lock, in no order.
type turnstile chan struct{}

func newTurnstile() turnstile { return make(turnstile, 1) }

// turn is the right of one transaction to write to the file. Only the first call of end returns it.
type turn struct {
	at   turnstile
	over atomic.Bool
	left atomic.Bool // a statement may have left state on the connection: see mayLeaveState
}

func (t *turn) end() {
	if t != nil && !t.over.Swap(true) {
		<-t.at
	}
}

// take waits for the turn, at most for the time limit. It returns an error if ctx ends before the turn
// comes.
func (t turnstile) take(ctx context.Context, limit time.Duration) (*turn, error) {
	select {
	case t <- struct{}{}: // before the timer, so that a free turn succeeds even if most is 0
		return &turn{at: t}, nil
	default:
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case t <- struct{}{}:
		return &turn{at: t}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-timer.C:
		return nil, fmt.Errorf("wait for the other transactions of this process: %w", store.ErrBusy)
	}
}

type turnKey struct{}
