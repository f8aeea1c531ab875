package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
)

// A walField is an outbox whose relay polls or reads a replication slot, in turns. Its relay is that of
// another process than the writers'.
type walField struct {
	b     *bench
	pool  *pgxpool.Pool // the writers'
	polls *pgstore.Store
	reads *pgstore.WAL
	topic string
	bus   broker.Broker

	asked, looked atomic.Int64 // by the relay

	connect *connect // nil: without Debezium
	warm    bool
	more    map[string]string // of the connector that has its turn
}

func (b *bench) walField(ctx context.Context) (*walField, error) {
	topic, err := b.topic(ctx, partitions)
	if err != nil {
		return nil, err
	}
	pool, _, err := b.skald(ctx)
	if err != nil {
		return nil, err
	}
	f := &walField{b: b, pool: pool, topic: topic}
	url := pool.Config().ConnString()
	relays, err := b.connect(ctx, url, 4)
	if err != nil {
		return nil, err
	}
	f.polls = pgstore.New(relays, nil)
	slot := name()
	if f.reads, err = f.polls.WAL(url, &pgstore.WALOptions{Slot: slot}); err != nil {
		return nil, err
	}
	b.later(func() error {
		_, err := b.probe.conn.Exec(context.WithoutCancel(ctx),
			"select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = $1", slot)
		return err
	})
	bus, err := kafkabroker.New(b.kafka, nil)
	if err != nil {
		return nil, err
	}
	f.bus = bus
	b.later(bus.Close)
	if f.connect, err = b.connectTo(ctx, pool); err != nil {
		return nil, err
	}
	return f, f.makeSlot(ctx)
}

// makeSlot lets a relay make it.
func (f *walField) makeSlot(ctx context.Context) error {
	stop, ended := start(ctx, relay.New(f.reads, newSink(nil, 0), &relay.Options{Logger: quietly()}))
	for !f.reads.Listening().Quiet {
		select {
		case <-time.After(10 * time.Millisecond):
		case err := <-ended:
			return fmt.Errorf("the relay ended: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	stop()
	return <-ended
}

// ways are the two contenders.
func (f *walField) ways(turn func(ctx context.Context, m *meter, from relay.Source) error) []contender {
	way := func(name string, from relay.Source) contender {
		return contender{name: name,
			turn: func(ctx context.Context, m *meter) error { return turn(ctx, m, from) }}
	}
	return []contender{way("polling", countedPolls{f.polls, f}), way("WAL", countedReads{f.reads, f})}
}

func (f *walField) count(ask *store.LeaseRequest) {
	f.asked.Add(1)
	if ask != nil && ask.SnapshotBase != nil {
		f.looked.Add(1)
	}
}

// countedPolls counts what its relay asks.
type countedPolls struct {
	*pgstore.Store
	f *walField
}

func (c countedPolls) Lease(ctx context.Context, ask store.LeaseRequest) (store.Leased, error) {
	c.f.count(&ask)
	return c.Store.Lease(ctx, ask)
}

func (c countedPolls) Deferred(ctx context.Context, q store.DeferredQuery) (store.Deferred, error) {
	c.f.count(nil)
	return c.Store.Deferred(ctx, q)
}

// countedReads does, too.
type countedReads struct {
	*pgstore.WAL
	f *walField
}

func (c countedReads) Lease(ctx context.Context, ask store.LeaseRequest) (store.Leased, error) {
	c.f.count(&ask)
	return c.WAL.Lease(ctx, ask)
}

func (c countedReads) Deferred(ctx context.Context, q store.DeferredQuery) (store.Deferred, error) {
	c.f.count(nil)
	return c.WAL.Deferred(ctx, q)
}

func walDrains() comparison {
	return comparison{
		name:  "wal-kafka",
		title: "a backlog through one relay into Kafka (acks=all, 16 partitions), by polling and beside a replication slot that the backlog went through; rows per second",
		kafka: true,
		set: func(ctx context.Context, b *bench) ([]contender, error) {
			f, err := b.walField(ctx)
			if err != nil {
				return nil, err
			}
			if err := fill(ctx, f.pool, outbox.New[pgx.Tx](pgstore.New(f.pool, nil), nil), f.topic, b.rows,
				nil); err != nil {
				return nil, err
			}
			all := f.ways(func(ctx context.Context, m *meter, from relay.Source) error {
				return m.carry(ctx, from, newSink(f.bus, b.rows), plainRelay())
			})
			if f.connect != nil {
				all = append(all, f.debezium(debeziumName, nil, true, f.debeziumDrain))
			}
			return all, nil
		},
		bars: []bar{
			{what: "WAL, rows/s", of: "WAL", value: perSecond, least: 150_000},
			{what: "WAL ÷ polling", of: "WAL", to: []string{"polling"}, value: perSecond},
			{what: "Debezium ÷ WAL", of: debeziumName, to: []string{"WAL"}, value: perSecond},
			{what: "Debezium ÷ WAL, processor time of a row", of: debeziumName, to: []string{"WAL"},
				value: cpu},
			{what: "Debezium, s to its first record (not in the rate)", of: debeziumName,
				value: extra("start")},
		},
	}
}

const (
	flowWriters = 4
	flowPause   = 10 * time.Millisecond // of each: 400 transactions in a second
)

func walFlows() comparison {
	return comparison{
		name: "wal-flow",
		title: fmt.Sprintf("from sending COMMIT in one process to Kafka's answer (acks=all) in the relay's, %d transactions/s",
			flowWriters*int(time.Second/flowPause)),
		kafka: true,
		set: func(ctx context.Context, b *bench) ([]contender, error) {
			f, err := b.walField(ctx)
			if err != nil {
				return nil, err
			}
			return f.flows(ctx)
		},
		bars: []bar{
			{what: "WAL, p50 ms", of: "WAL", value: p50, most: 3},
			{what: "WAL, p99 ms", of: "WAL", value: p99, most: 20},
			{what: "WAL ÷ polling, p50", of: "WAL", to: []string{"polling"}, value: p50},
			{what: "WAL ÷ polling, p99", of: "WAL", to: []string{"polling"}, value: p99},
			{what: "WAL ÷ polling, processor time", of: "WAL", to: []string{"polling"}, value: cpu},
			{what: "Debezium ÷ WAL, p50", of: debeziumName, to: []string{"WAL"}, value: p50},
			{what: "Debezium ÷ WAL, processor time", of: debeziumName, to: []string{"WAL"}, value: cpu},
			{what: debeziumQuick + " ÷ WAL, p50", of: debeziumQuick, to: []string{"WAL"}, value: p50},
			{what: debeziumQuick + " ÷ WAL, processor time", of: debeziumQuick, to: []string{"WAL"},
				value: cpu},
		},
	}
}

// flow measures a steady flow.
func (f *walField) flow(ctx context.Context, m *meter, from relay.Source) error {
	var sent sync.Map // key of a message: when its COMMIT was sent
	var mu sync.Mutex
	var lat []time.Duration
	to := newSink(f.bus, 0)
	to.session = "the one broker of all turns"
	to.on = func(msg skald.Message) {
		if at, ok := sent.LoadAndDelete(string(msg.Key)); ok {
			mu.Lock()
			lat = append(lat, time.Since(at.(time.Time)))
			mu.Unlock()
		}
	}
	stop, ended := start(ctx, relay.New(from, to, &relay.Options{Logger: quietly()}))
	defer stop()
	writes, done := context.WithCancel(ctx)
	defer done()
	var wg sync.WaitGroup
	errs := make(chan error, flowWriters)
	for w := range flowWriters {
		wg.Go(func() { errs <- f.writes(writes, fmt.Sprintf("%s-%d", name(), w), &sent) })
	}
	wait := func(d time.Duration) error {
		select {
		case <-time.After(d):
			return nil
		case err := <-ended:
			return fmt.Errorf("the relay ended: %w", err)
		case err := <-errs:
			return fmt.Errorf("a writer ended: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := wait(time.Second); err != nil {
		return err
	}
	if err := m.begin(ctx); err != nil {
		return err
	}
	mu.Lock()
	lat = nil
	mu.Unlock()
	if err := wait(m.b.dur); err != nil {
		return err
	}
	mu.Lock()
	m.lat = append([]time.Duration(nil), lat...)
	mu.Unlock()
	m.end(ctx, len(m.lat))
	done()
	wg.Wait()
	stop()
	return <-ended
}

// writes writes at a fixed rate, a key for each message.
func (f *walField) writes(ctx context.Context, as string, sent *sync.Map) error {
	out, event := outbox.New[pgx.Tx](pgstore.New(f.pool, nil), nil),
		skald.Event[order]{Topic: f.topic, Type: "order.placed"}
	tick := time.NewTicker(flowPause)
	defer tick.Stop()
	for n := int64(0); ; n++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		key := fmt.Sprintf("%s-%d", as, n)
		tx, err := f.pool.Begin(ctx)
		if err == nil {
			if err = out.Write(ctx, tx, event.New(key, newOrder(n))); err == nil {
				sent.Store(key, time.Now())
				err = tx.Commit(ctx)
			}
			_ = tx.Rollback(context.WithoutCancel(ctx))
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}

func walIdles() comparison {
	return comparison{
		name:  "wal-idle",
		title: "looks of one relay at an outbox in which nothing happens, per second; lease renewals are not counted",
		kafka: true,
		set: func(ctx context.Context, b *bench) ([]contender, error) {
			f, err := b.walField(ctx)
			if err != nil {
				return nil, err
			}
			return f.idles(), nil
		},
		bars: append([]bar{
			{what: "WAL, looks/s", of: "WAL", value: perSecond, most: 0.001},
			{what: "WAL, round trips/s, leases included", of: "WAL", value: extra("asked")},
			{what: "polling, round trips/s, leases included", of: "polling", value: extra("asked")},
		}, restBars("polling", "WAL", debeziumName, debeziumQuick)...),
	}
}

func (f *walField) idle(ctx context.Context, m *meter, from relay.Source) error {
	stop, ended := start(ctx, relay.New(from, newSink(nil, 0), &relay.Options{Logger: quietly()}))
	defer stop()
	wait := func(d time.Duration) error {
		select {
		case <-time.After(d):
			return nil
		case err := <-ended:
			return fmt.Errorf("the relay ended: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := wait(5 * time.Second); err != nil {
		return err
	}
	if err := m.begin(ctx); err != nil {
		return err
	}
	count := func() (looked, asked int64) { return f.looked.Load(), f.asked.Load() }
	if err := f.atRest(ctx, m, count,
		func(_ context.Context, d time.Duration) error { return wait(d) }); err != nil {
		return err
	}
	stop()
	return <-ended
}

func restBars(names ...string) (out []bar) {
	for _, name := range names {
		for _, what := range [][2]string{{"transactions/s at the database", "transactions"},
			{"client, ms of CPU a second", "client_cpu"}, {"PostgreSQL, ms of CPU a second", "pg_cpu"}} {
			out = append(out, bar{what: name + ", " + what[0], of: name, value: extra(what[1])})
		}
	}
	return out
}
