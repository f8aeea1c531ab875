package main

import (
	"context"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/outbox"
)

// estate is the path's table once more: as the owner without telemetry, under roles, with telemetry, in one
// run.
func estate() []comparison {
	time := wayBars(cost, "time")
	return []comparison{
		{name: "estate-outbox-write", title: "one event in the caller's transaction, 16 clients", bars: time,
			set: estateWrites(1)},
		{name: "estate-outbox-write-batch",
			title: "ten events in the caller's transaction, 16 clients; rows per second", bars: time,
			set: estateWrites(batchOf)},
		{
			name:  "estate-relay-drain",
			title: "a backlog of traced messages through one relay to a publisher that answers at once; rows per second", bars: time,
			set: func(ctx context.Context, b *bench) ([]contender, error) {
				return b.estateDrain(ctx, "orders", nil)
			},
		},
		{
			name:  "estate-relay-kafka",
			title: "a backlog of traced messages through one relay into Kafka (acks=all, 16 partitions); rows per second", bars: time, kafka: true,
			set: func(ctx context.Context, b *bench) ([]contender, error) {
				topic, err := b.topic(ctx, partitions)
				if err != nil {
					return nil, err
				}
				bus, err := kafkabroker.New(b.kafka, nil)
				if err != nil {
					return nil, err
				}
				b.later(bus.Close)
				return b.estateDrain(ctx, topic, bus)
			},
		},
		{
			name:  "estate-idle-latency",
			title: "from COMMIT to the publisher, idle, relay in the writer's process, a publisher that answers at once",
			bars:  wayBars(p50, "p50"), set: estateIdle,
		},
		{name: "estate-idempotent-message",
			title: "an idempotent message, its handler one INSERT and one event, 16 workers", bars: time,
			set: estateMessages},
		{name: "estate-duplicates",
			title: "messages that were handled before, dropped per second, 16 workers", bars: time,
			set: estateDuplicates},
	}
}

func estateWrites(unit int) func(context.Context, *bench) ([]contender, error) {
	return func(ctx context.Context, b *bench) ([]contender, error) {
		w, err := b.writing(ctx)
		if err != nil {
			return nil, err
		}
		ways, err := b.ways(ctx, w.pool, "app")
		if err != nil {
			return nil, err
		}
		event, value := skald.Event[order]{Topic: "orders", Type: "order.placed"}, newOrder(1)
		var out []contender
		for _, one := range ways {
			as := &writing{pool: one.pool, out: one.out()}
			out = append(out, contender{one.name, w.empty,
				as.turn(unit, func(ctx context.Context, tx pgx.Tx) error {
					drafts := make([]skald.Draft, unit)
					for i := range drafts {
						drafts[i] = event.New(orderKey(as.n.Add(1)), value)
					}
					return as.out.Write(one.parents.in(ctx), tx, drafts...)
				})})
		}
		return out, nil
	}
}

// estateDrain drains rows that have a trace, whoever looks, so that all do the same work.
func (b *bench) estateDrain(ctx context.Context, topic string, bus broker.Publisher) ([]contender, error) {
	pool, db, err := b.skald(ctx)
	if err != nil {
		return nil, err
	}
	ways, err := b.ways(ctx, pool, "relay")
	if err != nil {
		return nil, err
	}
	if err := fill(ctx, pool, outbox.New[pgx.Tx](db, nil), topic, b.rows,
		&parents{each: max(1, b.traced)}); err != nil {
		return nil, err
	}
	var out []contender
	for _, one := range ways {
		out = append(out, contender{name: one.name, turn: func(ctx context.Context, m *meter) error {
			return m.carry(ctx, one.db, newSink(bus, b.rows), one.relay)
		}})
	}
	return out, nil
}

func estateIdle(ctx context.Context, b *bench) ([]contender, error) {
	pool, _, err := b.skald(ctx)
	if err != nil {
		return nil, err
	}
	ways, err := b.ways(ctx, pool, "app", "relay")
	if err != nil {
		return nil, err
	}
	var out []contender
	for _, one := range ways {
		c := (&yard{b: b, pool: one.pool, db: one.db}).wakingWith(one.name, "orders", nil,
			one.out(), one.relay)
		turn := c.turn
		c.turn = func(ctx context.Context, m *meter) error { return turn(one.parents.in(ctx), m) }
		out = append(out, c)
	}
	return out, nil
}

// tills are one for each way, in t's database.
func (t *till) tills(ctx context.Context, b *bench) (names []string, out []*till, err error) {
	ways, err := b.ways(ctx, t.pool, "app")
	if err != nil {
		return nil, nil, err
	}
	for _, one := range ways {
		names = append(names, one.name)
		out = append(out, &till{pool: t.pool, db: one.db, data: t.data, in: one.inbox, say: &one.outbox,
			parents: one.parents})
	}
	return names, out, execAll(ctx, t.pool, "grant insert on payment to public")
}

func estateMessages(ctx context.Context, b *bench) ([]contender, error) {
	t, err := b.till(ctx)
	if err != nil {
		return nil, err
	}
	names, tills, err := t.tills(ctx, b)
	if err != nil {
		return nil, err
	}
	var out []contender
	for i, one := range tills {
		out = append(out, contender{names[i], t.empty, one.inbox})
	}
	return out, nil
}

func estateDuplicates(ctx context.Context, b *bench) ([]contender, error) {
	t, err := b.till(ctx)
	if err != nil {
		return nil, err
	}
	known, err := t.handleAll(ctx, knownIDs)
	if err != nil {
		return nil, err
	}
	names, tills, err := t.tills(ctx, b)
	if err != nil {
		return nil, err
	}
	var out []contender
	for i, one := range tills {
		var n atomic.Int64
		out = append(out, one.drop(names[i], func() skald.Message {
			m := known[n.Add(1)%knownIDs]
			m.TraceParent = one.parents.next()
			return m
		}))
	}
	return out, nil
}
