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

// AdoptInbox transfers a consumer's group at the broker from another database to this one. The
// *broker.OwnerError of a refused consumer names the other database. Stop its consumers first.
//
// The audit records the order before the broker receives it. If the broker refuses or does not answer, the
// audit also records the error. A process that dies in between leaves only the order: repeat the call. An
// error that wraps broker.ErrUnsupported means that the broker keeps no owner. A dry run does not ask the
// broker.
func AdoptInbox(ctx context.Context, db AdoptStore, b broker.Adopter, consumer, from string, o Order) error {
	if consumer == "" || from == "" {
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
		Audit: auditOf(&o, "adopt from "+from, consumer, store.Identity{})}); err != nil {
		return fmt.Errorf("adopt %s: %w", consumer, err)
	}
	err = b.Adopt(ctx, broker.Group{Name: consumer, Owner: is.ID, OwnerName: is.Name}, from)
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
