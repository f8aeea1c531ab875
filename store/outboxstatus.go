package store

import "time"

// OutboxStatus counts the unpublished rows of the outbox, and has the relay of each shard.
type OutboxStatus struct {
	Pending  int64         // unpublished rows, without the deferred ones
	Exact    bool          // false means that Pending is an estimate, because there are many rows
	Oldest   time.Duration // age of the oldest pending row; 0 without pending rows
	Deferred int64         // rows that the broker refused, or that wait for such a row
	Shards   []OutboxShard // in order
}

// OutboxShard is the state of a shard of the outbox.
type OutboxShard struct {
	Shard   int
	Owner   string // the live relay that owns the shard; empty if no relay owns it
	Epoch   int64
	Pending int64
}
