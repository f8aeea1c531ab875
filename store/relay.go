package store

import "context"

// Source is the part of a Store that relays read: the shards of the outbox, their rows, and the deferred
// rows.
type Source interface {
	// Lease takes, renews and releases shards, by the store's clock. In the same round trip it can look for
	// new rows. If LeaseRequest.Owner is empty, Lease only looks for new rows, and writes nothing if there
	// are none.
	Lease(ctx context.Context, ask LeaseRequest) (Leased, error)

	// Pull reads a page of a window, in order: at most limit rows and PageBytes, but at least one row. For a
	// row larger than RowBytes it returns Large instead of its content.
	Pull(ctx context.Context, w Window, limit int) (Page, error)

	// Deferred reads the rows that the broker refused, and the rows that wait for such a row of their key.
	Deferred(ctx context.Context, q DeferredQuery) (Deferred, error)
}

// DeferredQuery selects deferred rows of some shards.
type DeferredQuery struct {
	Shards []int
	// Keys lists the keys that have deferred rows. It omits rows without a key, because they delay no other
	// rows.
	Keys bool
	// Due is the maximum number of due rows to read, in order; 0 reads none. For each key, Due selects the
	// first row if that row is due. It also selects the rows after it, up to the next row with attempts. If
	// the first row itself has attempts, Due selects only the first row. The limit PageBytes applies.
	Due int
}

// Deferred is the result of a DeferredQuery.
type Deferred struct {
	Keys []DeferredKey
	Due  []DeferredRow
}

// Snapshot looks for rows that were committed after the snapshot base; "" is the beginning. If there are no
// such rows, Snapshot returns base, otherwise a new snapshot. Pull can then read the rows between the two
// snapshots, which are all flushed to the disk. Snapshot returns ErrMoved if the database does not have base.
func Snapshot(ctx context.Context, db Leaser, base string) (tip string, err error) {
	got, err := db.Lease(ctx, LeaseRequest{SnapshotBase: &base})
	return got.Tip, err
}

// Leaser is the part of a Source that leases shards and takes snapshots.
type Leaser interface {
	Lease(ctx context.Context, ask LeaseRequest) (Leased, error)
}

// DeferredKeys lists the keys with deferred rows in these shards.
func DeferredKeys(ctx context.Context, db Deferrer, shards []int) ([]DeferredKey, error) {
	d, err := db.Deferred(ctx, DeferredQuery{Shards: shards, Keys: true})
	return d.Keys, err
}

// DueRows reads due deferred rows of these shards, up to limit. The rows that were due first come first. So
// rows that the broker always refuses do not delay other rows for long.
func DueRows(ctx context.Context, db Deferrer, shards []int, limit int) ([]DeferredRow, error) {
	d, err := db.Deferred(ctx, DeferredQuery{Shards: shards, Due: limit})
	return d.Due, err
}

// Deferrer is the part of a Source that reads deferred rows.
type Deferrer interface {
	Deferred(ctx context.Context, q DeferredQuery) (Deferred, error)
}
