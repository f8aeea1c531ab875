package store

import (
	"context"
	"time"
)

// EntityHold requests a place for a saga in the queue of each entity. The first saga in a queue holds the
// entity.
type EntityHold struct {
	Holder   string  // a saga's ID; requests with the same ID share their places
	Saga     SagaRef // the saga to wake, at any Version
	Entities []Lock  // their Version is ignored
}

// Hold is a saga's place in the queue for an entity. The first saga in the queue holds the entity.
type Hold struct {
	Space, Key string
	Holder     string  // as in EntityHold
	Saga       SagaRef // without a Version
	Since      time.Time
	Before     int // number of sagas before this one; 0 means that this saga holds the entity
	Behind     int // number of sagas after this one; EntityHolders returns 0
}

// HoldQuery selects places in queues.
type HoldQuery struct {
	Holder string // empty selects all
	Entity *Lock  // nil selects all
	Limit  int    // default 1,000
}

// ListHolds lists places in queues, ordered by space, key and place. An index supports the filters Holder and
// Entity.
func ListHolds(ctx context.Context, db Lister, q HoldQuery) ([]Hold, error) {
	l, err := db.List(ctx, List{Holds: &q})
	return l.Holds, err
}
