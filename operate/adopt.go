package operate

import (
	"cmp"
	"context"
	"fmt"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
)

// AdoptStore is the part of a store that AdoptInbox needs.
type AdoptStore interface {
	Applier
	Database(ctx context.Context) (store.Database, error)
}

// AdoptInbox makes this database the owner of a consumer's group at the broker. The argument owner is the
// database that owns the group now: the *broker.OwnerError of a refused consumer has it. Stop the consumers
// that use that database first.
//
// AdoptInbox records the order in the audit before it calls the broker. If the broker refuses or does not
// answer, AdoptInbox also records the error. If the process dies in between, the audit has only the order:
// call AdoptInbox again. An error that wraps broker.ErrUnsupported means that the broker stores no owners.
// A dry run does not call the broker.
func AdoptInbox(ctx context.Context, db AdoptStore, b broker.Adopter, consumer, owner string, o Order) error {
	if consumer == "" || owner == "" {
		return &UsageError{Reason: "name the consumer and the database that owns its group: the log of the refused consumer has both"}
	}
	if err := cmp.Or(checkName("the consumer", consumer), checkOrder(&o)); err != nil {
		return err
	}
	is, err := db.Database(ctx)
	if err != nil || o.DryRun {
		return err
	}
	if _, err := applyEffect(ctx, db, store.Effect{
		Audit: auditOf(&o, "adopt from "+owner, consumer, store.Identity{})}); err != nil {
		return fmt.Errorf("adopt %s: %w", consumer, err)
	}
	err = b.Adopt(ctx, broker.Group{Name: consumer, Owner: is.ID, OwnerName: is.Name}, owner)
	if err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteWithin)
	defer cancel()
	failed := o
	failed.Reason = column.ClipReason(firstLine(err.Error()))
	if _, bad := applyEffect(ctx, db, store.Effect{
		Audit: auditOf(&failed, "adopt failed", consumer, store.Identity{})}); bad != nil {
		return fmt.Errorf("%w; recording the failure in the audit failed, too: %w", err, bad)
	}
	return err
}
