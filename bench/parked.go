package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
)

const (
	// cloned makes what is parked from one parked message: of each key the first failed and the others wait
	// behind it. The number of an advisory lock may be any; keys that share one only wait for each other. The
	// keys lie between those of fresh messages.
	cloned = `insert into skald_parked (consumer, source, id, key_lock, key, topic, type, data, envelope, bytes, partition, position, fault, attempts, due,
		waiting, blocks_key, first_at, first_error, first_host, last_at, last_error, last_host, kind, fingerprint, stack, version, running_count, running_bytes)
	select p.consumer, p.source, n.id, hashtextextended(n.key, 0), convert_to(n.key, 'UTF8'), p.topic, p.type, p.data,
		convert_to(replace(convert_from(p.envelope, 'UTF8'), p.id, n.id), 'UTF8'), p.bytes, p.partition, p.position + n.i, p.fault,
		case when n.i < $2 then p.attempts else 0 end, p.due, n.i >= $2, p.blocks_key, p.first_at, p.first_error, p.first_host,
		p.last_at, p.last_error, p.last_host, p.kind, p.fingerprint, p.stack, p.version, n.i / $2 + 1, (n.i / $2 + 1) * p.bytes
	from skald_parked as p cross join (
		select i, skald_uuid7()::text as id, 'order-' || i % $2 || '-parked' as key from generate_series(0::bigint, $1::bigint - 1) as i
	) as n order by n.i`
	unordered = `select count(*) from (
		select p.id < lag(p.id) over (partition by h.key order by h.place) as early from heap as h join payment as p on p.msg_id = h.id
	) as x where early`
)

// park has n messages of so many keys parked, due after that time, as after a failure of all of them.
func (t *till) park(ctx context.Context, n, keys int, due time.Duration) error {
	if err := t.empty(ctx); err != nil {
		return err
	}
	m := newMessage(0, t.data)
	failure := store.Failure{At: m.Time, Why: "the gateway is away", Host: "bench"}
	_, err := t.db.Apply(ctx,
		store.Effect{Park: &store.Park{Parked: store.Parked{Consumer: group,
			Identity: store.Identity{Source: m.Source, ID: m.ID},
			Message:  m, Partition: feedPartition, Attempts: 1, Due: due, First: failure, Last: failure}}})
	if err != nil {
		return fmt.Errorf("park: %w", err)
	}
	if _, err := t.pool.Exec(ctx, cloned, n, keys); err != nil {
		return fmt.Errorf("park: %w", err)
	}
	if _, err := t.pool.Exec(ctx, "delete from skald_parked where id = $1", m.ID); err != nil {
		return fmt.Errorf("park: %w", err)
	}
	return execAll(ctx, t.pool, "drop table if exists heap",
		"create table heap as select id, key, place from skald_parked",
		"vacuum analyze skald_parked", "vacuum analyze heap")
}

// drained measures how fast an inbox takes what is parked, while nothing else comes.
func (t *till) drained(name string, n, keys int, consume func(*feed) *inbox.Inbox[pgx.Tx]) contender {
	ready := func(ctx context.Context) error { return t.park(ctx, n, keys, 0) }
	return contender{name, ready, func(ctx context.Context, m *meter) error {
		in := consume(newFeed(func() (skald.Message, bool) { return skald.Message{}, false }))
		m.r.Concurrency = workers
		if err := m.begin(ctx); err != nil {
			return err
		}
		stop, ended := start(ctx, in)
		defer stop()
		tick := time.NewTicker(waitStep)
		defer tick.Stop()
		for in.Health().Handled < int64(n) && time.Since(m.a.at) < m.b.limit {
			select {
			case <-tick.C:
			case err := <-ended:
				return fmt.Errorf("the inbox ended: %w", err)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		m.end(ctx, int(in.Health().Handled))
		stop()
		if err := <-ended; err != nil {
			return err
		}
		return t.inOrder(ctx, n, in.Health())
	}}
}

// inOrder: each was parked or took effect, those of a key in their order.
func (t *till) inOrder(ctx context.Context, n int, h inbox.Health) error {
	var parked, early int64
	if err := t.pool.QueryRow(ctx, "select count(*) from skald_parked").Scan(&parked); err != nil {
		return fmt.Errorf("count what is parked: %w", err)
	}
	if err := t.pool.QueryRow(ctx, unordered).Scan(&early); err != nil {
		return fmt.Errorf("look at the order: %w", err)
	}
	if parked+h.Handled != int64(n) || early > 0 {
		return fmt.Errorf("of %d parked messages %d were handled, %d are parked, and %d came too early", n,
			h.Handled, parked, early)
	}
	return t.check(ctx, h)
}

const drainOf = "drain, "

func parkedDrains() comparison {
	figure := func(of string, least float64) bar {
		return bar{what: of + ": drain ÷ fresh", of: drainOf + of, to: []string{of}, value: perSecond,
			least: least}
	}
	return comparison{
		name:  "parked-drain",
		title: "parked messages that are all due, until none is left, beside as many workers with fresh ones; -parked of -parked-keys",
		set: func(ctx context.Context, b *bench) ([]contender, error) {
			t, err := b.till(ctx)
			if err != nil {
				return nil, err
			}
			var out []contender
			for _, one := range t.modes() {
				out = append(out, t.turn(one.name, one.consume),
					t.drained(drainOf+one.name, b.parked, b.parkedKeys, one.consume))
			}
			return out, nil
		},
		bars: []bar{figure(single, 0.5), figure(batched, 0.5), figure(onceForAll, 0.5)},
	}
}

// A mode is a way to take messages.
type mode struct {
	name    string
	consume func(*feed) *inbox.Inbox[pgx.Tx]
}

func (t *till) modes() []mode {
	return []mode{{single, t.each(1, 0)}, {batched, t.each(batch, 0)}, {onceForAll, t.atOnce}}
}

const besideParked = ", keys parked"

// neighbours measures what a message of another key pays for what is parked.
func neighbours() comparison {
	c := comparison{
		name:  "parked-neighbours",
		title: "messages of other keys while -parked of -parked-keys are parked for an hour, and while nothing is",
		set: func(ctx context.Context, b *bench) ([]contender, error) {
			t, err := b.till(ctx)
			if err != nil {
				return nil, err
			}
			var out []contender
			for _, one := range t.modes() {
				beside := t.turn(one.name+besideParked, one.consume)
				beside.ready = func(ctx context.Context) error {
					return t.park(ctx, b.parked, b.parkedKeys, time.Hour)
				}
				out = append(out, t.turn(one.name, one.consume), beside)
			}
			return out, nil
		},
	}
	for _, of := range []string{single, batched, onceForAll} {
		c.bars = append(c.bars,
			bar{what: of + ", time of a message, with ÷ without", of: of + besideParked, to: []string{of},
				value: cost, most: 1.05},
			bar{what: of + ", processor time, with ÷ without", of: of + besideParked, to: []string{of},
				value: cpu, most: 1.05})
	}
	return c
}
