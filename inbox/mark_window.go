package inbox

import (
	"context"
	"time"
)

// A Window says for how long after it was written a message may come, where the inbox cannot find that out:
// marks have to be kept as long, and Run, or the first Step, ends with a *store.RetentionError where they are
// not. The zero value works.
type Window struct {
	// Outbox is how long after it was written a message may leave the outbox of its producer: what that
	// keeps, or its longest lag if that is more. Default 7 days.
	Outbox time.Duration
	// Broker is how long the broker keeps a message, and is taken for what it says itself. Default: it is
	// asked; RabbitMQ and a broker that gives no right to ask cannot tell, and count as 0.
	Broker time.Duration
	// Saga is the longest that a saga lives in which this consumer takes part. Default 0: it is in none.
	Saga time.Duration
	// Dead is how long after it was written a dead letter may still come from elsewhere, from a topic of them
	// say. Those in the store are kept as long as they are there, and need no mark. Default 0: none does.
	Dead time.Duration
	// Short lets it start although marks are kept for less: what comes later is put into quarantine as too
	// old, or, if its id tells no time, taken again. Default: it does not start.
	Short bool
}

// checkWindow compares how long marks are kept with how long they are needed.
func (in *Inbox[TTx]) checkWindow(ctx context.Context) error {
	o := in.o.Retention.Window
	needs := needs{Topics: in.topics, DB: in.db, Bus: in.bus, Keep: in.o.Retention.Keep,
		Age: in.o.Retry.Age, Log: in.o.Logger.With("consumer", in.group),
		Outbox: o.Outbox, Broker: o.Broker, Saga: o.Saga, Dead: o.Dead, Short: o.Short}
	w, err := needs.Window(ctx)
	if err != nil {
		return err
	}
	if err := in.checkCache(w.Marks); err != nil {
		return err
	}
	return needs.Compare(ctx, w)
}
