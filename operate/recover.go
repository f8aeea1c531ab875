package operate

import (
	"context"
	"errors"

	"github.com/skald-go/skald/store"
)

// ErrNothingToRecover reports that there is nothing to recover.
var ErrNothingToRecover = errors.New(
	"outbox recover: nothing to recover: the positions of the shards match this database")

// RecoverStore is the part of a store that Recover needs.
type RecoverStore interface {
	Recover(ctx context.Context, note *store.Audit) (store.Recovered, error)
}

// Recover adjusts a database that moved: it was restored, went back in time, or was switched over by
// logical replication. It publishes each retained row that is not recorded as published once more, in
// order. It raises sequences above the numbers that consumers have stored. Make sure first that no other
// copy of the database has relays. A dry run only returns the observation. ErrNothingToRecover means that the
// database did not move. Recover needs the rights of the owner of the tables.
func Recover(ctx context.Context, db RecoverStore, o Order) (r store.Recovered, err error) {
	if err := checkOrder(&o); err != nil {
		return r, err
	}
	var note *store.Audit
	if !o.DryRun {
		note = auditOf(&o, "recover", "", store.Identity{})
	}
	if r, err = db.Recover(ctx, note); err == nil && r.Moved == "" {
		err = ErrNothingToRecover
	}
	return r, err
}
