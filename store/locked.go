package store

import (
	"context"
	"time"
)

// LockQuery selects locked entities and reserved keys.
type LockQuery struct {
	// Entity is looked up in addition to the locked entities, even if it is not locked itself. Nil looks up
	// no entity.
	Entity   *Lock
	Consumer string // of the reservations; empty selects all
	Limit    int    // of each list; default 1,000
}

// Locks is the result of a LockQuery.
type Locks struct {
	// Supported reports whether the database shows which transactions lock entities. If false, Entities has
	// only the entity that was looked up.
	Supported bool
	// Part reports that only some entities were examined, because there are many. A locked entity that was
	// not examined is still named if another transaction waits for it.
	Part     bool
	Entities []LockedEntity // named ones by space and key, then unnamed ones
	Reserved []ReservedKey  // by consumer, source and id
}

// LockedEntity is an entity that a transaction has locked until it ends. Version is the entity's committed
// version; 0 means that it has none.
type LockedEntity struct {
	Lock
	// Unnamed reports that the transaction has locked entities that cannot be named, because they are new or
	// were not examined.
	Unnamed bool
	// Holder is the user, application and process, as the database reports them; empty if the entity is not
	// locked
	Holder  string
	Since   time.Duration // since the locking transaction began; negative means not known
	Waiting int           // waiting transactions
}

// ReservedKey is a key that is reserved for work outside of a transaction, or a key that was reserved until
// its lease ended.
type ReservedKey struct {
	Consumer string
	Identity
	Since time.Duration // since it was reserved
	Left  time.Duration // of the lease; 0 means that it has ended and the next caller takes the key over
}

// ListLocks lists locked entities and reserved keys. It locks nothing.
func ListLocks(ctx context.Context, db Lister, q LockQuery) (Locks, error) {
	l, err := db.List(ctx, List{Locks: &q})
	return l.Locks, err
}
