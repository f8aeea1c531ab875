package store

import (
	"context"
	"time"
)

// A LockQuery chooses among entities that are locked, and keys that are reserved.
type LockQuery struct {
	// Entity is looked up, whether or not it is locked, beside those that are; nil: none is.
	Entity   *Lock
	Consumer string // whose reservations; "": all
	Limit    int    // of each list, at most; default 1,000
}

// Locks answers a LockQuery.
type Locks struct {
	// Told: the database says which transactions have entities locked. Where it does not, Entities has the
	// one that was looked up alone.
	Told bool
	// Part: entities are many, and only some of them were looked at. Beyond these, one that is locked is
	// named if others wait for it.
	Part     bool
	Entities []LockedEntity // named ones by space and key, then the others
	Reserved []ReservedKey  // by consumer, source and id
}

// A LockedEntity is one that a transaction has locked until it ends. Version is the one that is committed; 0:
// none is.
type LockedEntity struct {
	Lock
	// Unnamed: the transaction has entities locked of which it is not to be seen which: new ones, or beyond
	// the part that was looked at.
	Unnamed bool
	Holder  string        // user, application and process, as the database knows them; "": nobody has it
	Since   time.Duration // since its transaction began; negative: that is not to be seen
	Waiting int           // transactions that wait for it
}

// A ReservedKey is a key that work outside of a transaction has in hand, or had until its lease ended.
type ReservedKey struct {
	Consumer string
	Identity
	Since time.Duration // since it was taken
	Left  time.Duration // of the lease; 0: it has ended, and whoever comes next takes the key over
}

// ListLocks lists entities that are locked, and keys that are reserved. It locks nothing.
func ListLocks(ctx context.Context, db Lister, q LockQuery) (Locks, error) {
	l, err := db.List(ctx, List{Locks: &q})
	return l.Locks, err
}
