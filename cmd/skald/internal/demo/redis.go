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

// cacheTTL is the lifetime of a run's entries in Redis. skald demo remove does not delete these entries.
const cacheTTL = time.Hour

// cacheTimeout is longer than the default, because six services run in one process, perhaps on two
// processors.
const cacheTimeout = 250 * time.Millisecond

// Cached counts the requests to the cache: keys found, keys missing, and requests skipped because Redis was
// down.
type Cached struct {
	Hits    int64 `json:"hits"`
	Misses  int64 `json:"misses"`
	Unasked int64 `json:"unasked"`
}

// openCache returns the cache in Redis, even if Redis does not answer. It returns a nil cache without
// --redis.
func openCache(o *Options) (cache *rediscache.Cache, end func() error, err error) {
	if o.Redis == "" {
		return nil, func() error { return nil }, nil
	}
	logging.Disable() // otherwise the client writes to standard error
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
		return nil, nil, fmt.Errorf("open the cache in Redis: %w", err)
	}
	return cache, client.Close, nil
}

// cached returns the counts of the cache, or nil without a cache.
func (c *crew) cached() *Cached {
	if c.cache == nil {
		return nil
	}
	s := c.cache.Status()
	return &Cached{Hits: s.Hits, Misses: s.Misses, Unasked: s.Unasked}
}
