package store

import "time"

// A Kind is a type of the messages of a topic.
type Kind struct{ Topic, Type string }

// A Beat is what a process of a consumer says of itself, about once a minute.
type Beat struct {
	Own    []Kind        // it handles; none: this is no sign of session
	Forget time.Duration // kinds that no process noted for as long are forgotten first; 0: none is
	// Progress: the process has acknowledged something since its last Beat.
	Progress bool
}

// A Consumer is how a consumer group of this database does, as its own processes noted it.
type Consumer struct {
	Name     string
	Topics   []string      // that it handles types of, by name
	Heard    time.Duration // since one of its processes last gave a sign of session
	Progress time.Duration // since one of them last acknowledged something, or the group was first heard of
}

// A RelayProgress is how a relay does that owns shards of this database, or whose broker does not answer.
type RelayProgress struct {
	Owner string
	// Progress is since it took a shard or stored how far one has come; without a shard as BrokerAway.
	Progress   time.Duration
	Shards     int           // that it owns
	BrokerAway time.Duration // since its broker answered last; 0: it answers, or the relay is dead
}

// A LeftKind is a type that a process of its consumer has no handler for: it has left messages of it to
// another build, and they wait.
type LeftKind struct {
	Consumer string
	Kind
	Messages int64
	Host     string        // of the process that left the last of them
	Heard    time.Duration // since a process that handles it was last heard of; -1: nobody is known to
}
