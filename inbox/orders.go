// This file applies the orders of operators to a consumer: pause, resume, and skip messages with a
// fingerprint.

package inbox

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/skald-go/skald/internal/control"
	"github.com/skald-go/skald/store"
)

// operatorOrders has the current orders. Only one goroutine uses it.
type operatorOrders struct {
	consumer string
	log      *slog.Logger
	read     bool // orders were read at least once
	now      control.Orders
}

// newOrders returns operatorOrders without an order. Log has the name of the consumer.
func newOrders(consumer string, log *slog.Logger) *operatorOrders {
	return &operatorOrders{consumer: consumer, log: log}
}

// Take reads the orders, which the store has among the checkpoints. It returns the fingerprints to skip. It
// returns resumed true if an operator resumed the consumer since the last call.
func (o *operatorOrders) Take(ctx context.Context,
	checkpoints []store.Checkpoint) (skipped map[string]control.Order, resumed bool) {
	next := control.Read(checkpoints)
	if resumed = o.read && next.Resumed != o.now.Resumed; resumed {
		o.log.WarnContext(ctx, "inbox: an operator resumed the consumer")
	}
	if was := o.now.Paused; next.Paused != nil && (was == nil || *was != *next.Paused) {
		o.log.WarnContext(ctx, "inbox: an operator paused the consumer",
			"who", next.Paused.Who, "why", next.Paused.Why, "remedy", o.resume())
	}
	o.read, o.now = true, next
	return next.Skipped, resumed
}

// Pause reports whether an operator paused the consumer.
func (o *operatorOrders) Pause() bool { return o.now.Paused != nil }

// Why returns the reason for which the consumer is paused, or "".
func (o *operatorOrders) Why() string {
	if o.now.Paused == nil {
		return ""
	}
	return fmt.Sprintf("paused by %s: %s: to resume: %s", o.now.Paused.Who, o.now.Paused.Why, o.resume())
}

func (o *operatorOrders) resume() string {
	return fmt.Sprintf("skald consumer resume --consumer %s --reason WHY", o.consumer)
}
