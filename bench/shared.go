package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/rabbitbroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store/pgstore"
)

const sharedEvery = 5 * time.Millisecond // a message

// sharedQueue compares instances on one plain queue of RabbitMQ, at a rate that one of them could take alone: from
// the publisher's confirmation being asked for to the handler.
func sharedQueue() comparison {
	const one, two, four = "1 instance", "2 instances", "4 instances"
	cases := map[string]int{one: 1, two: 2, four: 4}
	return comparison{
		name:  "shared-queue",
		title: "from publishing to the handler, 200 messages a second to one queue of RabbitMQ that instances share",
		there: func(b *bench) bool { return b.rabbit != "" },
		set: func(_ context.Context, b *bench) ([]contender, error) {
			var out []contender
			for _, name := range []string{one, two, four} {
				out = append(out, contender{name: name, turn: sharing(cases[name]).turn})
			}
			return out, nil
		},
		bars: []bar{
			{what: "p99 of 2 instances ÷ of 1", of: two, to: []string{one}, value: p99, most: 1.5},
			{what: "p99 of 4 instances ÷ of 1", of: four, to: []string{one}, value: p99, most: 1.5},
			{what: "p99 ms of 1 instance", of: one, value: p99},
		},
	}
}

// sharing is how many instances share the queue.
type sharing int

func (n sharing) turn(ctx context.Context, m *meter) (err error) {
	pool, _, err := m.b.skald(ctx)
	if err != nil {
		return err
	}
	if err := execAll(ctx, pool, "CREATE TABLE effect (id text PRIMARY KEY)"); err != nil {
		return err
	}
	addr, queue := strings.TrimPrefix(m.b.rabbit, "amqp://"), name()
	conn, err := amqp.Dial("amqp://guest:guest@" + addr + "/")
	if err != nil {
		return fmt.Errorf("connect to RabbitMQ: %w", err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return fmt.Errorf("open a channel: %w", err)
	}
	if _, err := ch.QueueDeclare(queue, true, false, false, false, nil); err != nil {
		return fmt.Errorf("declare a queue: %w", err)
	}
	defer func() {
		_, gone := ch.QueueDelete(queue, false, false, false)
		err = errors.Join(err, gone)
	}()
	came := make(chan time.Duration, 1<<16)
	stop, err := n.start(ctx, pool, addr, queue, came)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if _, err := sayTo(ctx, ch, queue, came, warm*4); err != nil { // connections, statements
		return err
	}
	if err := m.begin(ctx); err != nil {
		return err
	}
	if m.lat, err = sayTo(ctx, ch, queue, came, m.b.dur); err != nil {
		return err
	}
	m.end(ctx, len(m.lat))
	return nil
}

// sayTo publishes for d, waits until all are handled, and returns how long each took.
func sayTo(ctx context.Context, ch *amqp.Channel, queue string, came <-chan time.Duration,
	d time.Duration) (lat []time.Duration, err error) {
	tick := time.NewTicker(sharedEvery)
	defer tick.Stop()
	said := 0
	for end := time.Now().Add(d); time.Now().Before(end); said++ {
		<-tick.C
		now := time.Now()
		body, err := json.Marshal(now.UnixNano())
		if err != nil {
			return nil, err
		}
		err = ch.PublishWithContext(ctx, "", queue, false, false,
			amqp.Publishing{MessageId: fmt.Sprint(now.UnixNano()), Type: "order.placed",
				ContentType: "application/json", Body: body, DeliveryMode: amqp.Persistent})
		if err != nil {
			return nil, fmt.Errorf("publish: %w", err)
		}
	}
	for len(lat) < said {
		select {
		case l := <-came:
			lat = append(lat, l)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return lat, nil
}

// start runs the instances, each with a connection and a pool of its own.
func (n sharing) start(ctx context.Context, pool *pgxpool.Pool, addr, queue string,
	came chan<- time.Duration) (stop func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var closers []func()
	failed := make(chan error, n)
	stop = func() error {
		cancel()
		wg.Wait()
		for _, c := range closers {
			c()
		}
		close(failed)
		return errors.Join(<-failed)
	}
	for range n {
		own, err := pgxpool.NewWithConfig(ctx, pool.Config())
		if err != nil {
			return nil, errors.Join(err, stop())
		}
		bus, err := rabbitbroker.New(addr, &rabbitbroker.Options{Queue: queue})
		if err != nil {
			own.Close()
			return nil, errors.Join(err, stop())
		}
		closers = append(closers, func() { _ = bus.Close() }, own.Close)
		in := inbox.New[pgx.Tx](pgstore.New(own, nil), bus, queue, &inbox.Options{Logger: quietly()})
		in.Handle(queue, "order.placed", func(ctx context.Context, tx pgx.Tx, m skald.Message) error {
			var said int64
			if err := json.Unmarshal(m.Data, &said); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "INSERT INTO effect VALUES ($1)", m.ID); err != nil {
				return err
			}
			came <- time.Since(time.Unix(0, said))
			return nil
		})
		wg.Go(func() {
			if err := in.Run(ctx); err != nil {
				failed <- fmt.Errorf("an instance ended: %w", err)
			}
		})
	}
	return stop, nil
}
