// Package rediscache remembers in Redis what is finished, in front of the database that knows. A repeat that
// it knows costs no statement of the database. It only makes things faster: whatever Redis answers is checked
// (see once.Cache), and while it does not answer it is not asked.
//
//	cache, err := rediscache.New(goredis.New(rdb), nil)
//	in := inbox.New(db, bus, "stock", &inbox.Options{Cache: inbox.Cache{Finished: cache}})
package rediscache

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/rediscmd"
)

// Options of a Cache. The zero value works.
type Options struct {
	// TTL is how long an entry stays: at least 1 ms, and at most as long as marks are kept. Default 24 h. An
	// entry takes about 120 bytes of Redis.
	TTL time.Duration
	// Prefix of the keys. Default "skald:seen:".
	Prefix string
	// Guard bounds the calls: by default 25 ms for each, and no call for 1 s after one that failed.
	Guard rediscmd.GuardOptions

	MeterProvider metric.MeterProvider // default OpenTelemetry's global one
}

// Cache is a once.Cache in Redis. It is safe for concurrent use, and needs no end.
type Cache struct {
	redis *rediscmd.Guard
	o     Options
	tel   *telemetry.Cache

	mu      sync.Mutex
	waiting []once.Entry // to be written
	held    int          // bytes of their values
	writing bool
	status  Status
}

var _ once.Cache = (*Cache)(nil)

// Status counts what a Cache did since New.
type Status struct {
	Hits, Misses int64 // keys that Redis had something of, and had not
	Unasked      int64 // keys that were not looked up, because Redis was away or slow
	Stored       int64 // entries
	Dropped      int64 // entries that were not stored: Redis was away, or more waited than are kept
	Unavailable  bool  // the last call failed
}

const (
	mostWaiting = 10_000  // entries
	mostHeld    = 8 << 20 // bytes of their values
	mostAtOnce  = 500     // commands of one call
	mostSent    = 256 << 10
)

// New is a cache in what c talks to. An error names an option that cannot be.
func New(c rediscmd.Client, o *Options) (*Cache, error) {
	var d Options
	if o != nil {
		d = *o
	}
	d.TTL, d.Prefix = cmp.Or(d.TTL, 24*time.Hour), cmp.Or(d.Prefix, "skald:seen:")
	if d.TTL < time.Millisecond {
		return nil,
			fmt.Errorf("rediscache.Options.TTL is %v: Redis counts in milliseconds, give at least one", d.TTL)
	}
	if d.Guard.Logger == nil {
		d.Guard.Logger = slog.Default()
	}
	return &Cache{redis: rediscmd.NewGuard(c, &d.Guard), o: d,
		tel: telemetry.NewCache(telemetry.Providers{Meter: d.MeterProvider})}, nil
}

// TTL is how long an entry stays.
func (c *Cache) TTL() time.Duration { return c.o.TTL }

// Status may be called at any time.
func (c *Cache) Status() Status {
	away := c.redis.Status().Unavailable
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.status
	s.Unavailable = away
	return s
}

// Get looks keys up in one pipeline, or several of 500. Where one fails the rest is not asked.
func (c *Cache) Get(ctx context.Context, keys []string) []string {
	values := make([]string, len(keys))
	for from := 0; from < len(keys); from += mostAtOnce {
		some := keys[from:min(from+mostAtOnce, len(keys))]
		commands := make([][]string, len(some))
		for i, key := range some {
			commands[i] = []string{"GET", c.o.Prefix + key}
		}
		replies, err := c.redis.Do(ctx, commands)
		if err != nil {
			c.looked(0, 0, len(keys)-from)
			return values
		}
		hits := 0
		for i, r := range replies {
			if r.Err == nil && !r.Nil {
				values[from+i] = r.Text
				hits++
			}
		}
		c.looked(hits, len(some)-hits, 0)
	}
	return values
}

func (c *Cache) looked(hits, misses, unasked int) {
	c.mu.Lock()
	c.status.Hits, c.status.Misses, c.status.Unasked = c.status.Hits+int64(hits), c.status.Misses+
		int64(misses), c.status.Unasked+int64(unasked)
	c.mu.Unlock()
	c.tel.Looked(hits, misses, unasked)
}

// Put has entries stored soon, by one goroutine that ends when there is nothing left to store.
func (c *Cache) Put(entries ...once.Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range entries {
		if len(c.waiting) >= mostWaiting || c.held+len(e.Value) > mostHeld {
			c.status.Dropped++
			continue
		}
		c.waiting = append(c.waiting, e)
		c.held += len(e.Value)
	}
	if len(c.waiting) > 0 && !c.writing {
		c.writing = true
		go c.write()
	}
}

func (c *Cache) write() {
	for {
		some := c.take()
		if len(some) == 0 {
			return
		}
		stored := c.store(some)
		c.mu.Lock()
		c.status.Stored, c.status.Dropped = c.status.Stored+stored, c.status.Dropped+int64(len(some))-stored
		c.mu.Unlock()
	}
}

// take is what the next call writes. None: the goroutine that writes ends.
func (c *Cache) take() []once.Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, size := 0, 0
	for n < len(c.waiting) && n < mostAtOnce && (n == 0 || size+len(c.waiting[n].Value) <= mostSent) {
		size += len(c.waiting[n].Value)
		n++
	}
	if n == 0 {
		c.waiting, c.writing = nil, false
		return nil
	}
	some := c.waiting[:n:n]
	c.waiting, c.held = c.waiting[n:], c.held-size
	return some
}

func (c *Cache) store(some []once.Entry) (stored int64) {
	commands := make([][]string, 0, len(some))
	for _, e := range some {
		if ttl := c.staying(e); ttl > 0 {
			commands = append(commands, []string{"SET", c.o.Prefix + e.Key, e.Value,
				"PX", strconv.FormatInt(ttl, 10)})
		}
	}
	if len(commands) == 0 {
		return 0
	}
	replies, err := c.redis.Do(context.Background(), commands)
	if err != nil {
		return 0
	}
	for _, r := range replies {
		if r.Err == nil {
			stored++
		}
	}
	return stored
}

// staying is for how many milliseconds e is stored; 0: its time is over.
func (c *Cache) staying(e once.Entry) int64 {
	ttl := c.o.TTL
	if !e.Until.IsZero() {
		ttl = min(ttl, time.Until(e.Until))
	}
	return max(ttl, ttl+time.Millisecond-1, 0).Milliseconds()
}
