package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/lock"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/rediscache"
	"github.com/skald-go/skald/rediscmd"
	"github.com/skald-go/skald/rediscmd/goredis"
	"github.com/skald-go/skald/redislock"
)

const (
	cachedAtOnce = 500 // keys of one look-up
	lateness     = time.Minute
)

// inFront compares repeats that Redis knows with those that the database is asked about.
func inFront() comparison {
	const raw, cached, plain = "cache, one connection", "skald inbox, Redis in front", "skald inbox"
	return comparison{
		name:  "redis-duplicates",
		title: "messages that were handled before, dropped per second, with Redis in front and without",
		there: hasRedis,
		set: func(ctx context.Context, b *bench) ([]contender, error) {
			t, err := b.till(ctx)
			if err != nil {
				return nil, err
			}
			known, err := t.handleAll(ctx, knownIDs)
			if err != nil {
				return nil, err
			}
			cache, err := b.cache()
			if err != nil {
				return nil, err
			}
			var n atomic.Int64
			again := func() skald.Message { return known[n.Add(1)%knownIDs] }
			ahead := &till{pool: t.pool, db: t.db, data: t.data, in: t.in, say: t.say}
			ahead.in.Cache.Finished = cache
			return []contender{{name: raw,
				turn: func(ctx context.Context, m *meter) error { return lookUps(ctx, m, cache) }},
				ahead.drop(cached, again), t.drop(plain, again)}, nil
		},
		bars: []bar{
			{what: "look-ups/s, one connection, 500 in a pipeline", of: raw, value: perSecond,
				least: 200_000},
			{what: "duplicates/s with Redis in front ÷ without", of: cached, to: []string{plain},
				value: perSecond},
			{what: "processor time of one, client + PostgreSQL, ÷ without", of: cached, to: []string{plain},
				value: cpu},
		},
	}
}

func hasRedis(b *bench) bool { return b.redis != "" }

// connected is a client with one connection.
func (b *bench) connected() (rediscmd.Client, error) {
	at, err := redis.ParseURL(b.redis)
	if err != nil {
		return nil, fmt.Errorf("-redis: %w", err)
	}
	at.PoolSize = 1
	client := redis.NewClient(at)
	b.later(client.Close)
	return goredis.New(client), nil
}

func (b *bench) cache() (*rediscache.Cache, error) {
	client, err := b.connected()
	if err != nil {
		return nil, err
	}
	return rediscache.New(client, &rediscache.Options{TTL: time.Hour, Prefix: "skald_bench:",
		Guard: rediscmd.GuardOptions{Timeout: lateness, Logger: quietly()}})
}

// lookUps measures the cache alone, with keys that are all there.
func lookUps(ctx context.Context, m *meter, cache *rediscache.Cache) error {
	keys := make([]string, cachedAtOnce)
	for i := range keys {
		keys[i] = fmt.Sprint("key-", i)
		cache.Put(once.Entry{Key: keys[i], Value: "0123456789a"})
	}
	for cache.Get(ctx, keys[cachedAtOnce-1:])[0] == "" { // they are stored by and by
		time.Sleep(time.Millisecond)
	}
	return m.loop(ctx, 1, cachedAtOnce, func(ctx context.Context, _ int) error {
		for _, v := range cache.Get(ctx, keys) {
			if v == "" {
				return errors.New("a key that was stored is not there")
			}
		}
		return nil
	})
}

// lockings compares what a lock adds to work that is done once: in the database, and with a lease in front.
func lockings() comparison {
	const plain, locked, leased = "once", "once, an entity locked",
		"once, a lease of Redis and a token in front"
	return comparison{
		name: "redis-locks", title: "one INSERT once, by one client: what locks add", there: hasRedis,
		set: func(ctx context.Context, b *bench) ([]contender, error) {
			t, err := b.till(ctx)
			if err != nil {
				return nil, err
			}
			client, err := b.connected()
			if err != nil {
				return nil, err
			}
			locker, err := redislock.New(client, &redislock.Options{Timeout: lateness, TTL: 6 * lateness,
				Prefix: "skald_bench:", Logger: quietly()})
			if err != nil {
				return nil, err
			}
			var n atomic.Int64
			key := func() string { return fmt.Sprint("bench-", time.Now().UnixNano(), "-", n.Add(1)) }
			insert := func(ctx context.Context, tx pgx.Tx, id string) (int, error) {
				_, err := tx.Exec(ctx, insertPayment, id)
				return 0, err
			}
			work := func() lock.Work {
				return lock.Work{Scope: "bench", Key: key(),
					Entities: []lock.Entity{{Space: "account", Key: fmt.Sprint(n.Load() % 1000)}}}
			}
			each := func(name string, do func(ctx context.Context) error) contender {
				return contender{name: name, turn: func(ctx context.Context, m *meter) error {
					return m.loop(ctx, 1, 1, func(ctx context.Context, _ int) error { return do(ctx) })
				}}
			}
			return []contender{
				each(plain, func(ctx context.Context) error {
					id := key()
					_, _, err := once.Do(ctx, t.db, "bench", id, nil,
						func(ctx context.Context, tx pgx.Tx) (int, error) { return insert(ctx, tx, id) })
					return err
				}),
				each(locked, func(ctx context.Context) error {
					w := work()
					_, _, err := lock.Once(ctx, t.db, w,
						func(ctx context.Context, tx pgx.Tx, _ lock.Tokens) (int,
							error) {
							return insert(ctx, tx, w.Key)
						})
					return err
				}),
				each(leased, func(ctx context.Context) error {
					_, _, err := redislock.Do(ctx, locker, t.db, work(),
						func(context.Context, lock.Tokens) (string, error) { return key(), nil }, insert)
					return err
				}),
			}, nil
		},
		bars: []bar{
			{what: "an entity locked ÷ without, p50", of: locked, to: []string{plain}, value: p50},
			{what: "lease and token ÷ without, p50", of: leased, to: []string{plain}, value: p50},
		},
	}
}
