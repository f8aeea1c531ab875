// This file takes up what operators told a consumer: to pause, to go on, to skip what fails in one way.

package inbox

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/skald-go/skald/internal/control"
	"github.com/skald-go/skald/store"
)

// operatorOrders are what holds now. They belong to one goroutine.
type operatorOrders struct {
	consumer string
	log      *slog.Logger
	read     bool // once, at least
	now      control.Orders
}

// newOrders are none yet. Log names the consumer.
func newOrders(consumer string, log *slog.Logger) *operatorOrders {
	return &operatorOrders{consumer: consumer, log: log}
}

// Take takes up what stands among the positions, which are read anyway: what is to be skipped, and whether an
// operator has the consumer go on since the last time.
func (o *operatorOrders) Take(ctx context.Context,
	checkpoints []store.Checkpoint) (skipped map[string]control.Order, resumed bool) {
	next := control.Read(checkpoints)
	if resumed = o.read && next.Resumed != o.now.Resumed; resumed {
		o.log.WarnContext(ctx, "inbox: an operator has the consumer go on")
	}
	if was := o.now.Paused; next.Paused != nil && (was == nil || *was != *next.Paused) {
		o.log.WarnContext(ctx, "inbox: an operator has the consumer pause",
			"who", next.Paused.Who, "why", next.Paused.Why, "remedy", o.resume())
	}
	o.read, o.now = true, next
	return next.Skipped, resumed
}

// Pause tells whether the consumer is to pause.
func (o *operatorOrders) Pause() bool { return o.now.Paused != nil }

// Why says who paused the consumer and why; "": nobody did.
func (o *operatorOrders) Why() string {
	if o.now.Paused == nil {
		return ""
	}
	return fmt.Sprintf("paused by %s: %s: %s ends that", o.now.Paused.Who, o.now.Paused.Why, o.resume())
}

func (o *operatorOrders) resume() string {
	return fmt.Sprintf("skald consumer resume --consumer %s --reason WHY", o.consumer)
}
