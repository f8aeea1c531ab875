package store

import "context"

// Source is the part of a Store that relays read: the shards of the outbox, their rows, and the deferred
// rows.
type Source interface {
	// Lease takes, renews and releases shards, by the store's clock. In the same round trip it looks for new
	// rows. With an empty LeaseRequest.Owner, Lease only looks for rows, and writes nothing while there are
	// none.
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
	// Keys lists the keys that have deferred rows. Rows without a key delay no others and are not listed.
	Keys bool
	// Due is the maximum number of due rows to read, in order; 0 reads none. Of each key, Due selects the
	// first row if that row is due. It also selects the rows after it, up to the next row with attempts. If
	// the first row itself has attempts, Due selects only the first row. Pull's bound on bytes applies.
	Due int
}

// Deferred is the result of a DeferredQuery.
type Deferred struct {
	Keys []DeferredKey
	Due  []DeferredRow
}

// Snapshot looks for rows that were committed after the snapshot base; "" is the beginning. If there are no
// such rows, Snapshot returns base. Otherwise it returns a new snapshot. All rows between the two snapshots
// are flushed to disk, and Pull can read them. Snapshot returns ErrMoved if the database does not have base.
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
// rows that are refused again and again do not delay other rows for long.
func DueRows(ctx context.Context, db Deferrer, shards []int, limit int) ([]DeferredRow, error) {
	d, err := db.Deferred(ctx, DeferredQuery{Shards: shards, Due: limit})
	return d.Due, err
}

// Deferrer is the part of a Source that reads deferred rows.
type Deferrer interface {
	Deferred(ctx context.Context, q DeferredQuery) (Deferred, error)
}
