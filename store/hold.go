package store

import (
	"context"
	"time"
)

// EntityHold asks for a place in the line of each entity.
type EntityHold struct {
	Holder   string  // a saga's ID; requests with the same ID share their places
	Saga     SagaRef // the saga to wake, at any Version
	Entities []Lock  // their Version is ignored
}

// Hold is a saga's place in the line for an entity. The first in line holds the entity.
type Hold struct {
	Space, Key string
	Holder     string  // as in EntityHold
	Saga       SagaRef // without a Version
	Since      time.Time
	Before     int // places before it; 0 means that it holds the entity
	Behind     int // places after it; EntityHolders returns 0
}

// HoldQuery selects places in line.
type HoldQuery struct {
	Holder string // empty selects all
	Entity *Lock  // nil selects all
	Limit  int    // default 1,000
}

// ListHolds lists places in line, by space, key and place. An index supports Holder and Entity.
func ListHolds(ctx context.Context, db Lister, q HoldQuery) ([]Hold, error) {
	l, err := db.List(ctx, List{Holds: &q})
	return l.Holds, err
}
