package sqlexec

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/skald-go/skald/store"
)

// A turnstile lets one transaction of this process at a time at the file, in the order of their coming.
// SQLite alone would let them poll for its lock.
type turnstile chan struct{}

func newTurnstile() turnstile { return make(turnstile, 1) }

// A turn is given back once, however often asked.
type turn struct {
	at   turnstile
	over atomic.Bool
}

func (t *turn) end() {
	if t != nil && !t.over.Swap(true) {
		<-t.at
	}
}

// take waits for the turn; most bounds it where ctx does not.
func (t turnstile) take(ctx context.Context, most time.Duration) (*turn, error) {
	select {
	case t <- struct{}{}: // however little most is, nobody is in the way
		return &turn{at: t}, nil
	default:
	}
	timer := time.NewTimer(most)
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
