package operate

import (
	"context"
	"errors"

	"github.com/skald-go/skald/store"
)

// ErrNothingToRecover reports that the database needs no recovery.
var ErrNothingToRecover = errors.New(
	"outbox recover: nothing to recover: the positions of the shards match this database")

// RecoverStore is the part of a store that Recover needs.
type RecoverStore interface {
	Recover(ctx context.Context, note *store.Audit) (store.Recovered, error)
}

// Recover repairs a database after a restore, a return to an earlier state, or a switchover by logical
// replication. Relays then publish each retained row of the outbox that is not recorded as published, in
// order and perhaps for the second time. Recover also raises sequences above the numbers that consumers have
// stored. Make sure first that no relay runs on another copy of the database. Recover returns
// ErrNothingToRecover if the database is not such a copy. It needs the rights of the owner of the tables.
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
