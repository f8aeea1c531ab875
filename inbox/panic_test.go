package inbox_test

import (
	"context"
	"testing"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/testlog"
)

// broken is a driver that panics.
type broken struct{ *membroker.Broker }

func (b broken) Subscribe(ctx context.Context, g broker.Group) (broker.Subscription, error) {
	s, err := b.Broker.Subscribe(ctx, g)
	return brokenSubscription{s}, err
}

type brokenSubscription struct{ broker.Subscription }

func (brokenSubscription) Receive(context.Context, int) (broker.Batch, error) {
	panic("a driver is broken")
}

// A panic in the main loop ends Run. It is logged before.
func TestPanicInTheLoopIsLoggedAndEndsRun(t *testing.T) {
	w := newWorld(t, 1)
	var log testlog.Log
	in := inbox.New(w.db, broken{w.bus}, "broken", &inbox.Options{Logger: log.Logger()})
	inbox.On(in, said, keep)
	ended := make(chan any, 1)
	go func() {
		defer func() { ended <- recover() }()
		ended <- in.Run(t.Context())
	}()
	select {
	case v := <-ended:
		if v != "a driver is broken" {
			t.Errorf("Run ended with %v", v)
		}
	case <-time.After(time.Minute):
		t.Error("Run continues after a panic")
	}
	if log.Count("level=ERROR", "consumer broken", "a driver is broken", "frame=0", "Receive") != 1 {
		t.Error(log.String())
	}
}
