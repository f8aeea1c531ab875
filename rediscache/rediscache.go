// Package rediscache caches in Redis which messages are finished. A duplicate that the cache has needs no
// statement of the database. The cache changes only the speed, not the result: every entry is checked (see
// once.Cache). While Redis does not answer, Skald does not use the cache.
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

// Options configures a Cache. The zero value works.
type Options struct {
	// TTL is the lifetime of an entry: at least 1 ms, and at most the retention of marks. Default 24 h. An
	// entry takes about 120 bytes in Redis.
	TTL time.Duration
	// Prefix is the beginning of all keys in Redis. Default "skald:seen:".
	Prefix string
	// Guard limits the calls to Redis. By default a call takes at most 25 ms, and Redis is bypassed for 1 s
	// after a failed call.
	Guard rediscmd.GuardOptions

	MeterProvider metric.MeterProvider // default OpenTelemetry's global one
}

// Cache is a once.Cache in Redis. It is safe for concurrent use. It does not need to be closed.
type Cache struct {
	redis *rediscmd.Guard
	o     Options
	tel   *telemetry.Cache

	mu      sync.Mutex
	waiting []once.Entry // entries to write
	held    int          // total size of their values, in bytes
	writing bool         // the goroutine that writes is running
	status  Status
}

var _ once.Cache = (*Cache)(nil)

// Status has counts of a Cache since New.
type Status struct {
	Hits, Misses int64 // keys that Redis had, and keys that it did not have
	Unasked      int64 // keys that were not looked up, because Redis failed or was slow
	Stored       int64 // stored entries
	Dropped      int64 // entries that were not stored, because Redis failed, or too many were waiting
	Unavailable  bool  // the last call failed
}

const (
	mostWaiting = 10_000    // maximum of waiting entries
	mostHeld    = 8 << 20   // maximum size of their values, in bytes
	mostAtOnce  = 500       // maximum of commands in one call
	mostSent    = 256 << 10 // maximum size of the values in one call, in bytes
)

// New returns a Cache that uses c. It returns an error if an option is invalid.
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

// TTL returns the lifetime of an entry.
func (c *Cache) TTL() time.Duration { return c.o.TTL }

// Status returns the counts. It is safe for concurrent use.
func (c *Cache) Status() Status {
	away := c.redis.Status().Unavailable
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.status
	s.Unavailable = away
	return s
}

// Get returns the values of keys; "" for a key without a value. It sends at most 500 keys in one call. If a
// call fails, it does not look up the remaining keys.
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

// Put stores entries in the background. Its goroutine ends when no entries are left to store.
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

// take removes the entries of the next call from waiting. If there are none, it records that the goroutine
// ends.
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

// staying returns the lifetime of e in milliseconds, or 0 if e has expired.
func (c *Cache) staying(e once.Entry) int64 {
	ttl := c.o.TTL
	if !e.Until.IsZero() {
		ttl = min(ttl, time.Until(e.Until))
	}
	return max(ttl, ttl+time.Millisecond-1, 0).Milliseconds()
}
