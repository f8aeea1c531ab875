package store

import "time"

// Kind is a message type on a topic.
type Kind struct{ Topic, Type string }

// Heartbeat is the heartbeat of a process of a consumer, written about once a minute.
type Heartbeat struct {
	Own    []Kind        // the handled types; a heartbeat without types does not count as one
	Forget time.Duration // first delete types that no process recorded for this time; 0 deletes none
	// Progress reports that the process has acknowledged a message since its last heartbeat.
	Progress bool
}

// Consumer is the state of a consumer group of this database, as its processes recorded it.
type Consumer struct {
	Name          string
	Topics        []string      // topics of the handled types, by name
	LastHeartbeat time.Duration // time since the last heartbeat of one of its processes
	Progress      time.Duration // time since they last acknowledged a message, or since the first heartbeat
}

// RelayProgress is the state of a relay that owns shards of this database, or that cannot reach its broker.
type RelayProgress struct {
	Owner string
	// Progress is the time since the relay took a shard or stored progress; without a shard it equals
	// BrokerAway.
	Progress   time.Duration
	Shards     int           // owned shards
	BrokerAway time.Duration // time since its broker last answered; 0 if it answers, or if the relay is dead
}

// UnhandledKind is a type for which a process had no handler. The process left the messages of this type to
// another build, so they wait in the database.
type UnhandledKind struct {
	Consumer string
	Kind
	Messages int64
	Host     string // the process that last left such a message
	// LastHeartbeat is the time since the last heartbeat of a process that handles the type; -1 means that no
	// such heartbeat is known.
	LastHeartbeat time.Duration
}
