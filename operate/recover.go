package operate

import (
	"context"
	"errors"

	"github.com/skald-go/skald/store"
)

// ErrUnmoved says that there is nothing to recover.
var ErrUnmoved = errors.New(
	"outbox recover: nothing moved: the shards speak of this database, and it has all that they have come to")

// A Recoverer is what Recover asks of a store.
type Recoverer interface {
	Recover(ctx context.Context, note *store.Audit) (store.Recovered, error)
}

// Recover settles a database that moved: one that was restored, went back in time, or was switched over by
// logical replication. Each retained row that is not known as published is published once more, in order, and
// sequences go on after what consumers keep. Make sure first that no other copy of the database has relays. A
// dry run tells what moved. ErrUnmoved: nothing did. It needs the rights of the owner of the tables.
func Recover(ctx context.Context, db Recoverer, o Order) (r store.Recovered, err error) {
	if err := checkOrder(&o); err != nil {
		return r, err
	}
	var note *store.Audit
	if !o.DryRun {
		note = auditOf(&o, "recover", "", store.Identity{})
	}
	if r, err = db.Recover(ctx, note); err == nil && r.Moved == "" {
		err = ErrUnmoved
	}
	return r, err
}
