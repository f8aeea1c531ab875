package store

import (
	"context"
	"time"
)

// An EntityHold says who is to hold which entities.
type EntityHold struct {
	Holder   string  // a saga's ID: all that name it are one
	Saga     SagaRef // that is woken, whatever its Version
	Entities []Lock  // their Version says nothing
}

// A Hold is a place in the line for an entity. Who stands first holds it.
type Hold struct {
	Space, Key string
	Holder     string  // as in EntityHold
	Saga       SagaRef // without its Version
	Since      time.Time
	Before     int // how many stand before it; 0: it holds the entity
	Behind     int // how many stand behind it; of EntityHolders: 0
}

// A HoldQuery chooses among places in line.
type HoldQuery struct {
	Holder string // "": all
	Entity *Lock  // nil: all
	Limit  int    // at most; default 1,000
}

// ListHolds lists places in line, by space, key and place. It is quick by Holder and by Entity.
func ListHolds(ctx context.Context, db Lister, q HoldQuery) ([]Hold, error) {
	l, err := db.List(ctx, List{Holds: &q})
	return l.Holds, err
}
