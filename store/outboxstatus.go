package store

import "time"

// An OutboxStatus is what waits to be published, and which relay has it.
type OutboxStatus struct {
	Pending  int64         // rows that no relay has published, without the deferred ones
	Exact    bool          // false: Pending is an estimate, since they are many
	Oldest   time.Duration // since the oldest of them was written; 0: there is none
	Deferred int64         // rows that the broker refused, or that wait for one of these
	Shards   []OutboxShard // in order
}

// An OutboxShard is how a shard of the outbox stands.
type OutboxShard struct {
	Shard   int
	Owner   string // the living relay that has it; "": none
	Epoch   int64
	Pending int64
}
