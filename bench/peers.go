package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/components/forwarder"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// peerNames are those that carry messages from a table to a broker, as our relay does.
func peerNames() []string {
	var out []string
	for _, k := range watermills() {
		out = append(out, k.name())
	}
	return append(out, riverName)
}

// peers are others' code, each in a database of its own.
func (b *bench) peers(ctx context.Context) ([]contender, error) {
	pool, err := b.database(ctx)
	if err != nil {
		return nil, err
	}
	var out []contender
	for _, k := range watermills() {
		out = append(out, b.watermill(pool, k))
	}
	one, err := b.river(ctx, pool)
	return append(out, one), err
}

// settled waits until want is done, or for as long as a drain may take, and stops the clock.
func (m *meter) settled(ctx context.Context, done *atomic.Int64, want int) {
	for done.Load() < int64(want) && time.Since(m.a.at) < m.b.limit && ctx.Err() == nil {
		time.Sleep(waitStep)
	}
	m.end(ctx, int(done.Load()))
}

const watermillTopic = "outbox"

type watermillKind struct {
	label   string
	group   string
	schema  wsql.SchemaAdapter
	offsets wsql.OffsetsAdapter
}

func (k watermillKind) name() string { return "watermill forwarder, " + k.label }

func watermills() []watermillKind {
	return []watermillKind{
		{"defaults", "relay", wsql.DefaultPostgreSQLSchema{}, wsql.DefaultPostgreSQLOffsetsAdapter{}},
		{"batches of 1,000", "relay", wsql.DefaultPostgreSQLSchema{SubscribeBatchSize: 1000},
			wsql.DefaultPostgreSQLOffsetsAdapter{}},
		{"queue with DELETE", "", wsql.PostgreSQLQueueSchema{},
			wsql.PostgreSQLQueueOffsetsAdapter{DeleteOnAck: true}},
	}
}

// watermill forwards from its table to an in-memory channel whose consumer acknowledges at once.
func (b *bench) watermill(pool *pgxpool.Pool, k watermillKind) contender {
	var sub *wsql.Subscriber
	log := watermill.NopLogger{}
	ready := func(ctx context.Context) error {
		if err := execAll(ctx, pool, `drop table if exists "watermill_`+watermillTopic+
			`", "watermill_offsets_`+watermillTopic+`"`); err != nil {
			return err
		}
		var err error
		sub, err = wsql.NewSubscriber(wsql.BeginnerFromPgx(pool), wsql.SubscriberConfig{
			ConsumerGroup: k.group, SchemaAdapter: k.schema, OffsetsAdapter: k.offsets,
			InitializeSchema: true,
			PollInterval:     10 * time.Millisecond, // the default of 1 s counts only once the table is empty
		}, log)
		if err != nil {
			return err
		}
		if err := sub.SubscribeInitialize(watermillTopic); err != nil {
			return err
		}
		pool.Reset()
		for at := 0; at < b.peerRows; at += 100 {
			if err := watermillPublish(ctx, pool, k, min(100, b.peerRows-at)); err != nil {
				return err
			}
		}
		return execAll(ctx, pool, `vacuum analyze "watermill_`+watermillTopic+`"`)
	}
	return contender{k.name(), ready, func(ctx context.Context, m *meter) error {
		m.r.Concurrency = 1
		out := gochannel.NewGoChannel(gochannel.Config{OutputChannelBuffer: 1024}, log)
		arrived, err := out.Subscribe(ctx, "events")
		if err != nil {
			return err
		}
		var done atomic.Int64
		go func() {
			for msg := range arrived {
				msg.Ack()
				done.Add(1)
			}
		}()
		fw, err := forwarder.NewForwarder(sub, out, log, forwarder.Config{ForwarderTopic: watermillTopic})
		if err != nil {
			return err
		}
		if err := m.begin(ctx); err != nil {
			return err
		}
		ended := make(chan error, 1)
		go func() { ended <- fw.Run(ctx) }()
		m.settled(ctx, &done, b.peerRows)
		_ = fw.Close()
		<-ended
		_ = sub.Close()
		return out.Close()
	}}
}

// watermillPublish publishes through the forwarder's envelope in a transaction, as its outbox documentation
// has it.
func watermillPublish(ctx context.Context, pool *pgxpool.Pool, k watermillKind, n int) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		pub, err := wsql.NewPublisher(wsql.TxFromPgx(tx), wsql.PublisherConfig{SchemaAdapter: k.schema},
			watermill.NopLogger{})
		if err != nil {
			return err
		}
		msgs := make([]*message.Message, n)
		for i := range msgs {
			msgs[i] = message.NewMessage(watermill.NewUUID(), []byte(encoded(int64(i))))
		}
		return forwarder.NewPublisher(pub, forwarder.PublisherConfig{ForwarderTopic: watermillTopic}).Publish(
			"events", msgs...)
	})
}

const riverName = "river workers, tuned"

// A carried job does nothing but count.
type carried order

func (carried) Kind() string { return "carried" }

type carrier struct {
	river.WorkerDefaults[carried]
	done *atomic.Int64
}

func (c *carrier) Work(context.Context, *river.Job[carried]) error {
	c.done.Add(1)
	return nil
}

func (b *bench) river(ctx context.Context, pool *pgxpool.Pool) (contender, error) {
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return contender{}, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return contender{}, fmt.Errorf("migrate river: %w", err)
	}
	logger := slog.New(slog.DiscardHandler)
	ready := func(ctx context.Context) error {
		if err := execAll(ctx, pool, "truncate river_job"); err != nil {
			return err
		}
		cl, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: logger})
		if err != nil {
			return err
		}
		for at := 0; at < b.peerRows; at += 1000 {
			jobs := make([]river.InsertManyParams, min(1000, b.peerRows-at))
			for i := range jobs {
				jobs[i] = river.InsertManyParams{Args: carried(newOrder(int64(at + i)))}
			}
			if _, err := cl.InsertManyFast(ctx, jobs); err != nil {
				return err
			}
		}
		return execAll(ctx, pool, "vacuum analyze river_job")
	}
	return contender{riverName, ready, func(ctx context.Context, m *meter) error {
		var done atomic.Int64
		workers := river.NewWorkers()
		river.AddWorker(workers, &carrier{done: &done})
		cl, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
			FetchCooldown: 2 * time.Millisecond, FetchPollInterval: 20 * time.Millisecond, Logger: logger,
			Workers: workers,
			Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2000}},
		})
		if err != nil {
			return err
		}
		m.r.Concurrency = 2000
		if err := m.begin(ctx); err != nil {
			return err
		}
		if err := cl.Start(ctx); err != nil {
			return err
		}
		m.settled(ctx, &done, b.peerRows)
		return cl.Stop(ctx)
	}}, nil
}
