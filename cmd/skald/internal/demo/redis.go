package demo

import (
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/internal/endpoint"
	"github.com/skald-go/skald/rediscache"
	"github.com/skald-go/skald/rediscmd"
	"github.com/skald-go/skald/rediscmd/goredis"
)

// cacheTTL is how long a run's entries stay in Redis: nothing else removes them.
const cacheTTL = time.Hour

// cacheTimeout is above the default: six services, and perhaps their databases, share two processors.
const cacheTimeout = 250 * time.Millisecond

// Cached is what a cache in front of the databases did: keys that it had, had not, and was not asked for
// because Redis was away.
type Cached struct {
	Hits    int64 `json:"hits"`
	Misses  int64 `json:"misses"`
	Unasked int64 `json:"unasked"`
}

// openCache is the cache in the Redis of a URL, whether that answers or not; nil without one.
func openCache(o *Options) (cache *rediscache.Cache, end func() error, err error) {
	if o.Redis == "" {
		return nil, func() error { return nil }, nil
	}
	logging.Disable() // the client would write to standard error by itself
	at, err := redis.ParseURL(o.Redis)
	if err != nil || endpoint.CheckFront(o.Redis) != nil {
		return nil, nil,
			&cli.UsageError{
				What: "--redis is redis://[USER:PASSWORD@]HOST:PORT[/DATABASE], or rediss:// with TLS"}
	}
	client := redis.NewClient(at)
	cache, err = rediscache.New(goredis.New(client), &rediscache.Options{
		TTL: cacheTTL, Prefix: o.Prefix + ":seen:",
		Guard: rediscmd.GuardOptions{Timeout: cacheTimeout, Logger: o.Logger},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("the cache in Redis: %w", err)
	}
	return cache, client.Close, nil
}

// cached is what the cache of this process did; nil without one.
func (c *crew) cached() *Cached {
	if c.cache == nil {
		return nil
	}
	s := c.cache.Status()
	return &Cached{Hits: s.Hits, Misses: s.Misses, Unasked: s.Unasked}
}
