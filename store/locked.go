package store

import (
	"context"
	"time"
)

// LockQuery selects locked entities and reserved keys.
type LockQuery struct {
	// Entity adds this entity to the result, even if no transaction has locked it. Nil adds none.
	Entity   *Lock
	Consumer string // of the reservations; empty selects all
	Limit    int    // of each list; default 1,000
}

// Locks is the result of a LockQuery.
type Locks struct {
	// Supported reports whether the database shows which transactions lock entities. If false, Entities has
	// only the entity that was looked up.
	Supported bool
	// Part reports that the store examined only some entities, because there are many. It still lists a
	// locked entity by name if another transaction waits for it.
	Part     bool
	Entities []LockedEntity // named ones by space and key, then unnamed ones
	Reserved []ReservedKey  // by consumer, source and id
}

// LockedEntity is an entity that an open transaction has locked. Version is the committed version of the
// entity; 0 means that the entity is new.
type LockedEntity struct {
	Lock
	// Unnamed reports that the transaction has locked entities with unknown names, because they are new or
	// were not examined.
	Unnamed bool
	// Holder is the user, application and process, as the database reports them; empty if the entity is not
	// locked
	Holder  string
	Since   time.Duration // time since the locking transaction began; negative means not known
	Waiting int           // number of waiting transactions
}

// ReservedKey is an idempotency key that a caller reserved for work outside of a transaction. Its lease may
// have ended.
type ReservedKey struct {
	Consumer string
	Identity
	Since time.Duration // time since the reservation
	Left  time.Duration // remaining time of the lease; 0 means that the next caller gets the key
}

// ListLocks lists locked entities and reserved keys. It locks nothing.
func ListLocks(ctx context.Context, db Lister, q LockQuery) (Locks, error) {
	l, err := db.List(ctx, List{Locks: &q})
	return l.Locks, err
}
