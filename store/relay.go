package store

import "context"

// A Source is the part of a Store that relays read: the shards of the outbox, their rows, and the rows that
// the broker refused.
type Source interface {
	// Lease takes, renews and gives back shards, by the store's clock, and looks for new rows in the same
	// round trip. An Ask without an Owner only looks, which writes nothing while there is nothing new.
	Lease(ctx context.Context, ask Ask) (Leased, error)

	// Pull reads a page of a window, in order, at most limit rows and PageBytes of them, but one row at
	// least. Of a row of more than RowBytes it reads Large instead of what is in it.
	Pull(ctx context.Context, w Window, limit int) (Page, error)

	// Deferred reads the rows that the broker refused, and the rows that wait after such a row of their key.
	Deferred(ctx context.Context, q DeferredQuery) (Deferred, error)
}

// A DeferredQuery says what of the deferred rows of some shards is to be read.
type DeferredQuery struct {
	Shards []int
	// Keys lists the keys that have deferred rows. Rows without a key hold up no others and are not listed.
	Keys bool
	// Due is how many rows that are due are read at most, in order; 0: none. Of a key it gives the first row,
	// if that one is due; then the rows after it, up to and without the first that was tried before. If the
	// first itself was tried before (Attempts above 0), it gives that alone. Bytes are bounded as by Pull.
	Due int
}

// Deferred answers a DeferredQuery.
type Deferred struct {
	Keys []Held
	Due  []DeferredRow
}

// Snapshot looks for rows that were committed after base was drawn; "" is the beginning. If there are none it
// returns base. Otherwise it returns a new snapshot: Pull can read what lies between the two, and all of it
// is flushed to disk. ErrMoved: the database does not know base.
func Snapshot(ctx context.Context, db Leaser, base string) (tip string, err error) {
	got, err := db.Lease(ctx, Ask{Look: &base})
	return got.Tip, err
}

// A Leaser is the part of a Source that leases shards and draws snapshots.
type Leaser interface {
	Lease(ctx context.Context, ask Ask) (Leased, error)
}

// DeferredKeys lists the keys that have deferred rows in these shards.
func DeferredKeys(ctx context.Context, db Deferrer, shards []int) ([]Held, error) {
	d, err := db.Deferred(ctx, DeferredQuery{Shards: shards, Keys: true})
	return d.Keys, err
}

// DueRows reads deferred rows of these shards that are due, at most limit.
func DueRows(ctx context.Context, db Deferrer, shards []int, limit int) ([]DeferredRow, error) {
	d, err := db.Deferred(ctx, DeferredQuery{Shards: shards, Due: limit})
	return d.Due, err
}

// A Deferrer is the part of a Source that reads deferred rows.
type Deferrer interface {
	Deferred(ctx context.Context, q DeferredQuery) (Deferred, error)
}
