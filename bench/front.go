package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/httpidem"
	"github.com/skald-go/skald/rediscache"
	"github.com/skald-go/skald/rediscmd"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
)

// A numbered database counts how often it is asked for a request.
type numbered struct {
	*pgstore.Store
	asked atomic.Int64
}

func (n *numbered) Seen(ctx context.Context, consumer string, ids []store.Identity) ([]store.Verdict, error) {
	n.asked.Add(int64(len(ids)))
	return n.Store.Seen(ctx, consumer, ids)
}

func (n *numbered) Begin(ctx context.Context, in store.Intake) (store.Unit[pgx.Tx], error) {
	n.asked.Add(1)
	return n.Store.Begin(ctx, in)
}

func (n *numbered) SyncConsumer(ctx context.Context, a store.SyncRequest) (store.SyncResult, error) {
	n.asked.Add(1)
	return n.Store.SyncConsumer(ctx, a)
}

// client is a Redis that answers as a function says.
type client func(ctx context.Context, commands [][]string) ([]rediscmd.Reply, error)

func (c client) Do(ctx context.Context, commands [][]string) ([]rediscmd.Reply, error) {
	return c(ctx, commands)
}

// faults are ways in which a Redis fails.
func faults() map[string]client {
	each := func(commands [][]string, r rediscmd.Reply) []rediscmd.Reply {
		out := make([]rediscmd.Reply, len(commands))
		for i := range out {
			out[i] = r
		}
		return out
	}
	return map[string]client{
		"away": func(context.Context, [][]string) ([]rediscmd.Reply, error) {
			return nil, errors.New("connection refused")
		},
		"hangs": func(ctx context.Context, _ [][]string) ([]rediscmd.Reply, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
		"slow": func(_ context.Context, commands [][]string) ([]rediscmd.Reply, error) {
			time.Sleep(100 * time.Millisecond) // and heeds no context
			return each(commands, rediscmd.Reply{Nil: true}), nil
		},
		"empty": func(_ context.Context, commands [][]string) ([]rediscmd.Reply, error) {
			return each(commands, rediscmd.Reply{Nil: true}), nil
		},
		"wrong": func(_ context.Context, commands [][]string) ([]rediscmd.Reply, error) {
			return each(commands, rediscmd.Reply{Text: "processing"}), nil
		},
	}
}

// withoutDatabase is the share of a turn's posts that cost no statement, in percent.
const withoutDatabase = "without_database_pct"

// repeatsInFront compares repeated posts that Redis knows with those that the database is asked about, and
// shows what each fault of Redis costs.
func repeatsInFront() comparison {
	const cached, plain = "a repeat, Redis in front", "a repeat"
	bars := []bar{
		{what: "repeats without the database, %", of: cached, value: extra(withoutDatabase), least: 99},
		{what: "repeats/s with Redis in front ÷ without", of: cached, to: []string{plain}, value: perSecond},
	}
	for _, name := range slices.Sorted(maps.Keys(faults())) {
		bars = append(bars, bar{what: "Redis " + name + ": added to a repeat, p99 ms", of: "Redis " + name,
			to: []string{plain}, value: p99, most: 25, added: true})
	}
	return comparison{
		name:  "redis-http",
		title: "posts that were answered before, at the handler without sockets, 16 clients, with Redis in front and without", there: hasRedis,
		set: func(ctx context.Context, b *bench) ([]contender, error) {
			pool, db, err := b.skald(ctx)
			if err == nil {
				err = execAll(ctx, pool, "create table posted (id text)")
			}
			if err != nil {
				return nil, err
			}
			there, err := b.connected()
			if err != nil {
				return nil, err
			}
			d := &desk{pool: pool}
			out := []contender{d.repeated(plain, handling(db, "plain", nil))}
			add := func(name string, c rediscmd.Client, guard rediscmd.GuardOptions) error {
				guard.Logger = quietly()
				cache, err := rediscache.New(c, &rediscache.Options{TTL: time.Hour, Prefix: "skald_bench:",
					Guard: guard})
				if err != nil {
					return err
				}
				n := &numbered{Store: db}
				out = append(out, d.counted(name, n, handling(n, name, &httpidem.Options{Cache: cache})))
				return nil
			}
			err = add(cached, there, rediscmd.GuardOptions{Timeout: lateness})
			for _, name := range slices.Sorted(maps.Keys(faults())) {
				err = errors.Join(err, add("Redis "+name, faults()[name], rediscmd.GuardOptions{}))
			}
			return out, err
		},
		bars: bars,
	}
}

// counted is repeated, and says how many cost no statement.
func (d *desk) counted(name string, n *numbered, h http.Handler) contender {
	c := d.repeated(name, h)
	turn := c.turn
	c.turn = func(ctx context.Context, m *meter) error {
		n.asked.Store(0)
		err := turn(ctx, m)
		if err == nil && m.r.N == 0 {
			err = fmt.Errorf("%s: nothing was posted", name)
		}
		if err == nil { // what was asked while it warmed up counts against it, too
			m.r.Extra = map[string]float64{withoutDatabase: 100 * (1 - min(1,
				float64(n.asked.Load())/float64(m.r.N)))}
		}
		return err
	}
	return c
}
