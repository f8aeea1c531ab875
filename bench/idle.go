package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/relay"
)

const idleSamples = 30

// rest is the pause before each sample: long enough that everything is idle again.
func rest(ctx context.Context) error {
	select {
	case <-time.After(150*time.Millisecond + rand.N(300*time.Millisecond)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// waking measures from sending COMMIT to the broker's answer, with relay and writer in one process.
func (y *yard) waking(label, topic string, bus broker.Publisher) contender {
	return y.wakingWith(label, topic, bus, outbox.New[pgx.Tx](y.db, nil), plainRelay())
}

func (y *yard) wakingWith(label, topic string, bus broker.Publisher, out *outbox.Outbox[pgx.Tx],
	o relay.Options) contender {
	return contender{name: label, turn: func(ctx context.Context, m *meter) error {
		event := skald.Event[order]{Topic: topic, Type: "order.placed"}
		durable := make(chan time.Time, 1)
		s := newSink(bus, 0)
		// else the relay would begin with the rows of the turn before
		s.session = "the one broker of all turns"
		s.on = func(skald.Message) { durable <- time.Now() }
		stop, ended := start(ctx, relay.New(y.db, s, &o))
		defer stop()
		one := func(n int64) (time.Duration, error) {
			tx, err := y.pool.Begin(ctx)
			if err != nil {
				return 0, err
			}
			defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
			if err := out.Write(ctx, tx, event.New(orderKey(n), newOrder(n))); err != nil {
				return 0, err
			}
			t := time.Now()
			if err := tx.Commit(ctx); err != nil {
				return 0, err
			}
			select {
			case at := <-durable:
				return at.Sub(t), nil
			case err := <-ended:
				return 0, fmt.Errorf("the relay ended: %w", err)
			case <-time.After(m.b.limit):
				return 0, fmt.Errorf("not published within %v", m.b.limit)
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		if err := m.sample(ctx, one); err != nil {
			return err
		}
		stop()
		return <-ended
	}}
}

// sample takes idleSamples of one, with a rest before each.
func (m *meter) sample(ctx context.Context, one func(n int64) (time.Duration, error)) error {
	m.r.Concurrency = 1
	for n := range int64(idleSamples + 3) {
		if n == 3 { // the first ones prepare statements and open connections
			m.lat = nil
			if err := m.begin(ctx); err != nil {
				return err
			}
		}
		if err := rest(ctx); err != nil {
			return err
		}
		d, err := one(n)
		if err != nil {
			return err
		}
		m.lat = append(m.lat, d)
	}
	m.end(ctx, idleSamples)
	return nil
}

func idle() comparison {
	return comparison{
		name:  "idle-latency",
		title: "from COMMIT to the publisher, idle, relay in the writer's process, a publisher that answers at once",
		set: func(ctx context.Context, b *bench) ([]contender, error) {
			y, err := b.yard(ctx, "orders", 0)
			if err != nil {
				return nil, err
			}
			return []contender{y.waking("skald", "orders", nil)}, nil
		},
		bars: []bar{{what: "skald, p50 ms", of: "skald", value: p50, most: 5},
			{what: "skald, p99 ms", of: "skald", value: p99}},
	}
}

func kafkaIdle() comparison {
	return comparison{
		name:  "idle-latency-kafka",
		title: "from COMMIT to Kafka's answer (acks=all), idle, relay in the writer's process",
		kafka: true,
		set: func(ctx context.Context, b *bench) ([]contender, error) {
			topic, err := b.topic(ctx, partitions)
			if err != nil {
				return nil, err
			}
			y, err := b.yard(ctx, topic, 0)
			if err != nil {
				return nil, err
			}
			bus, err := kafkabroker.New(b.kafka, nil)
			if err != nil {
				return nil, err
			}
			b.later(bus.Close)
			hand, err := y.afterwards(ctx, topic)
			if err != nil {
				return nil, err
			}
			return []contender{y.waking("skald", topic, bus), hand}, nil
		},
		bars: []bar{
			{what: "skald, p50 ms", of: "skald", value: p50, most: 5},
			{what: "skald, p99 ms", of: "skald", value: p99},
			{what: "skald ÷ produced by hand behind COMMIT, p50", of: "skald",
				to: []string{"by hand: produce behind COMMIT"}, value: p50},
		},
	}
}

// afterwards is the least that can be: the same row committed, then the event produced beside the
// transaction.
func (y *yard) afterwards(ctx context.Context, topic string) (contender, error) {
	cl, err := y.b.producer(kgo.ProducerLinger(0))
	if err != nil {
		return contender{}, err
	}
	if err := execAll(ctx, y.pool, "create table plain"+plainTable); err != nil {
		return contender{}, err
	}
	return contender{name: "by hand: produce behind COMMIT", turn: func(ctx context.Context, m *meter) error {
		return m.sample(ctx, func(n int64) (time.Duration, error) {
			tx, err := y.pool.Begin(ctx)
			if err != nil {
				return 0, err
			}
			defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
			data := encoded(n)
			if _, err := tx.Exec(ctx, insertPlain, plainArgs(n, data)...); err != nil {
				return 0, err
			}
			t := time.Now()
			if err := tx.Commit(ctx); err != nil {
				return 0, err
			}
			err = cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Key: []byte(orderKey(n)),
				Value: []byte(data)}).FirstErr()
			return time.Since(t), err
		})
	}}, nil
}
