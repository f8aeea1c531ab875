package sqlitestore

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// release makes a message due again. If r.Dead is true, it changes the message only if it is a dead letter.
func release(ctx context.Context, x *sqlexec.Session, r *store.Requeue) error {
	if r.Dead {
		return releaseDead(ctx, x, r)
	}
	return parkedRelease(ctx, x, "RequeueParked", r)
}

// finish deletes a finished message. It fails if the message has changed since the claim.
func finish(ctx context.Context, x *sqlexec.Session, f *store.Finish) error {
	var at any // the key of the external call; nil allows any key
	if f.Attempts != nil {
		at = column.CallKey(f.WasCall)
	}
	if err := checkStillDead(ctx, x, f.Consumer, f.Identity, f.DeadAt); err != nil {
		return err
	}
	return change(ctx, x, "DeleteParked", f.Consumer, f.Identity, f.Attempts, at, f.Place)
}

// releaseDead parks a dead letter again. It does nothing if the message is not a dead letter.
func releaseDead(ctx context.Context, x *sqlexec.Session, r *store.Requeue) error {
	k, there, err := findKept(ctx, x, r.Consumer, r.Identity)
	if err != nil || !there || !k.dead() {
		return err
	}
	return parkedRelease(ctx, x, "RequeueDead", r)
}

func parkedRelease(ctx context.Context, x *sqlexec.Session, name string, r *store.Requeue) error {
	if err := checkStillDead(ctx, x, r.Consumer, r.Identity, r.DeadAt); err != nil {
		return err
	}
	if r.Attempts != nil {
		k, there, err := findKept(ctx, x, r.Consumer, r.Identity)
		if err == nil && (!there || k.dead() || k.attempts < *r.Attempts) {
			err = fmt.Errorf("%s is not parked any more with these attempts: %w", r.ID, store.ErrLost)
		}
		if err != nil {
			return err
		}
	}
	if err := stepBack(ctx, x, r.Consumer, r.Identity); err != nil {
		return err
	}
	return change(ctx, x, name, r.Consumer, r.Identity, nil)
}

// checkStillDead returns store.ErrLost unless the message is a dead letter that died at the time diedAt. It
// returns nil if diedAt is zero.
func checkStillDead(ctx context.Context, x *sqlexec.Session, consumer string, id store.Identity,
	diedAt time.Time) error {
	if diedAt.IsZero() {
		return nil
	}
	k, _, err := findKept(ctx, x, consumer, id)
	if err == nil && !sqlexec.ReadTime(k.died).Equal(diedAt) {
		err = fmt.Errorf("%s is not that dead letter any more: %w", id.ID, store.ErrLost)
	}
	return err
}

// stepBack prepares a dead letter that did not block its key, so that it can block the key again: see
// StepBack in parked.sql.
func stepBack(ctx context.Context, x *sqlexec.Session, consumer string, id store.Identity) error {
	if _, err := x.Exec(ctx, "StepBack", consumer, id.Source, id.ID); err != nil {
		return fmt.Errorf("move a dead letter to the end of its key: %w", err)
	}
	return nil
}
