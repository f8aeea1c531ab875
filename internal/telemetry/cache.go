package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Cache counts lookups in a cache in front of the database.
type Cache struct {
	lookups              metric.Int64Counter
	hit, miss, notLooked set
}

// NewCache returns the telemetry of a cache.
func NewCache(p Providers) *Cache {
	outcome := func(name string) set { return newSet(attribute.String(labelOutcome, name)) }
	c := &Cache{lookups: p.meter().counter(CacheLookups), hit: outcome("hit"), miss: outcome("miss"),
		notLooked: outcome("bypassed")}
	c.Looked(0, 0, 0) // start the counters at 0, so that a rate includes the first lookup
	return c
}

// Looked counts keys that were found, keys that were not found, and keys that were not looked up because
// the cache is unavailable.
func (c *Cache) Looked(hits, misses, bypassed int) {
	ctx := context.Background()
	if !c.lookups.Enabled(ctx) {
		return
	}
	c.lookups.Add(ctx, int64(hits), c.hit.add...)
	c.lookups.Add(ctx, int64(misses), c.miss.add...)
	c.lookups.Add(ctx, int64(bypassed), c.notLooked.add...)
}
