package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
)

// A remote is relays that hear of no write: each has a store of its own, as in another process.
type remote struct {
	relays  int
	notify  bool
	rest    func() time.Duration // before each sample
	samples int
	asked   *atomic.Int64 // round trips; nil: not counted, and the relay hears its listener
}

// fewProcesses is how many pools there are at most; relays beyond share the last, as instances of one
// process.
const fewProcesses = 4

// counted counts what a relay asks.
type counted struct {
	relay.Source
	n *atomic.Int64
}

func (c counted) Lease(ctx context.Context, ask store.LeaseRequest) (store.Leased, error) {
	c.n.Add(1)
	return c.Source.Lease(ctx, ask)
}

func (c counted) Deferred(ctx context.Context, q store.DeferredQuery) (store.Deferred, error) {
	c.n.Add(1)
	return c.Source.Deferred(ctx, q)
}

func (c counted) Apply(ctx context.Context, es ...store.Effect) ([]bool, error) {
	c.n.Add(1)
	return c.Source.Apply(ctx, es...)
}

const wakeSamples = 30

// idleFor is long enough for the pauses of n relays to have grown as far as they do.
func idleFor(n int) func() time.Duration {
	most := min(time.Duration(n)*105*time.Millisecond, time.Second)
	return func() time.Duration { return 21*most + rand.N(most) }
}

func aboutASecond() time.Duration { return 700*time.Millisecond + rand.N(300*time.Millisecond) }

func wakes() comparison {
	cases := []struct {
		name string
		most float64
		remote
	}{
		{"1 relay, a message within each second", 30,
			remote{relays: 1, rest: aboutASecond, samples: wakeSamples}},
		{"1 relay, from idle", 60, remote{relays: 1, rest: idleFor(1), samples: wakeSamples}},
		{"4 relays, from idle", 250, remote{relays: 4, rest: idleFor(4), samples: wakeSamples / 2}},
		{"1 relay, from idle, notified", 15,
			remote{relays: 1, notify: true, rest: idleFor(1), samples: wakeSamples}},
	}
	c := comparison{name: "wake", title: "from COMMIT in one process to the publisher in another"}
	for _, one := range cases {
		c.bars = append(c.bars, bar{what: one.name + ", p50 ms", of: one.name, value: p50, most: one.most})
	}
	c.set = func(ctx context.Context, b *bench) ([]contender, error) {
		var out []contender
		for _, one := range cases {
			out = append(out, contender{name: one.name, turn: one.turn})
		}
		return out, nil
	}
	return c
}

func (o remote) turn(ctx context.Context, m *meter) error {
	pool, _, err := m.b.skald(ctx)
	if err != nil {
		return err
	}
	came := make(chan time.Time, 1)
	stop, ended, err := o.start(ctx, m.b, pool.Config().ConnString(),
		func(skald.Message) { came <- time.Now() })
	if err != nil {
		return err
	}
	defer stop()
	out, event := outbox.New[pgx.Tx](pgstore.New(pool, &pgstore.Options{Notify: o.notify}), nil),
		skald.Event[order]{Topic: "orders", Type: "order.placed"}
	for n := range int64(o.samples + 3) {
		if n == 3 { // the first ones prepare statements and open connections
			if err := m.begin(ctx); err != nil {
				return err
			}
		}
		select {
		case <-time.After(o.rest()):
		case err := <-ended:
			return fmt.Errorf("a relay ended: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		}
		var at time.Time
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			at = time.Now()
			return out.Write(ctx, tx, event.New(orderKey(n), newOrder(n)))
		})
		if err != nil {
			return err
		}
		if d := (<-came).Sub(at); n >= 3 {
			m.lat = append(m.lat, d)
		}
	}
	m.end(ctx, o.samples)
	return nil
}

// start starts the relays.
func (o remote) start(ctx context.Context, b *bench, url string,
	on func(skald.Message)) (stop func(), ended chan error, err error) {
	ctx, stop = context.WithCancel(ctx)
	ended = make(chan error, 2*o.relays)
	var pool *pgxpool.Pool
	for i := range o.relays {
		if i < fewProcesses {
			if pool, err = b.connect(ctx, url, 8); err != nil {
				return stop, nil, err
			}
		}
		db := pgstore.New(pool, nil)
		run := []skald.Runner{}
		if o.notify {
			l, err := db.Listen(url)
			if err != nil {
				return stop, nil, err
			}
			run = append(run, l)
		}
		to := newSink(nil, 0)
		to.session, to.on = "the one broker of all", on
		var from relay.Source = db
		if o.asked != nil {
			from = counted{db, o.asked}
		}
		run = append(run, relay.New(from, to, &relay.Options{Logger: quietly()}))
		go func() { ended <- skald.Run(ctx, run...) }()
	}
	return stop, ended, nil
}

const idleSeconds = 20

// idleLoad counts what relays ask of an idle database.
func idleLoad() comparison {
	c := comparison{name: "idle-load",
		title: "what relays ask of a database in which nothing happens: round trips per second"}
	for _, most := range []struct {
		n int
		v float64
	}{{1, 10}, {4, 10}, {200, 20}} {
		c.bars = append(c.bars, bar{what: fmt.Sprintf("%d relays, round trips/s", most.n),
			of: fmt.Sprintf("%d relays", most.n), value: perSecond, most: most.v})
	}
	c.set = func(ctx context.Context, b *bench) ([]contender, error) {
		var out []contender
		for _, n := range []int{1, 4, 200} {
			out = append(out, contender{name: fmt.Sprintf("%d relays", n),
				turn: remote{relays: n, asked: new(atomic.Int64)}.idle})
		}
		return out, nil
	}
	return c
}

// idle waits until the pauses have grown, then counts.
func (o remote) idle(ctx context.Context, m *meter) error {
	pool, _, err := m.b.skald(ctx)
	if err != nil {
		return err
	}
	stop, ended, err := o.start(ctx, m.b, pool.Config().ConnString(), func(skald.Message) {})
	if err != nil {
		return err
	}
	defer stop()
	select {
	case <-time.After(90 * time.Second): // those that wait learn how many they are
	case err := <-ended:
		return fmt.Errorf("a relay ended: %w", err)
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := m.begin(ctx); err != nil {
		return err
	}
	from := o.asked.Load()
	select {
	case <-time.After(idleSeconds * time.Second):
	case <-ctx.Done():
		return ctx.Err()
	}
	m.end(ctx, int(o.asked.Load()-from))
	return nil
}
