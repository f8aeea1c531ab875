package store

import (
	"context"
	"time"
)

// A Kind is a type of the messages of a topic.
type Kind struct{ Topic, Type string }

// A LeftKind is a type that a process of its consumer has no handler for: it has left messages of it to another build, and they
// wait.
type LeftKind struct {
	Consumer string
	Kind
	Messages int64
	Host     string        // of the process that left the last of them
	Heard    time.Duration // since a process that handles it was last heard of; -1: nobody is known to
}

// A KindWatcher is a Store that can tell which types not every process handles.
type KindWatcher interface {
	// LeftKinds lists them, by consumer, topic and type. It locks nothing, and reads all that is parked.
	LeftKinds(ctx context.Context) ([]LeftKind, error)
}
