package sqlitestore

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// release has a message that is kept tried again. One that is to be a dead letter, and is none, stays as it
// is.
func release(ctx context.Context, x *sqlexec.Session, r *store.Requeue) error {
	if r.Dead {
		return releaseDead(ctx, x, r)
	}
	return parkedRelease(ctx, x, "RequeueParked", r)
}

// finish takes a message away that is kept.
func finish(ctx context.Context, x *sqlexec.Session, f *store.Finish) error {
	var at any // the call; nil: any
	if f.Attempts != nil {
		at = column.CallKey(f.WasCall)
	}
	if err := stillDead(ctx, x, f.Consumer, f.Identity, f.DeadAt); err != nil {
		return err
	}
	return change(ctx, x, "DeleteParked", f.Consumer, f.Identity, f.Attempts, at, f.Place)
}

// releaseDead has a dead letter parked again; of what is none nothing is done.
func releaseDead(ctx context.Context, x *sqlexec.Session, r *store.Requeue) error {
	k, there, err := findKept(ctx, x, r.Consumer, r.Identity)
	if err != nil || !there || !k.dead() {
		return err
	}
	return parkedRelease(ctx, x, "RequeueDead", r)
}

func parkedRelease(ctx context.Context, x *sqlexec.Session, name string, r *store.Requeue) error {
	if err := stillDead(ctx, x, r.Consumer, r.Identity, r.DeadAt); err != nil {
		return err
	}
	if r.Attempts != nil {
		k, there, err := findKept(ctx, x, r.Consumer, r.Identity)
		if err == nil && (!there || k.dead() || k.attempts < *r.Attempts) {
			err = fmt.Errorf("%s is not parked as it was: %w", r.ID, store.ErrLost)
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

// stillDead guards that a message is the dead letter that died then; of none, where it is zero.
func stillDead(ctx context.Context, x *sqlexec.Session, consumer string, id store.Identity,
	died time.Time) error {
	if died.IsZero() {
		return nil
	}
	k, _, err := findKept(ctx, x, consumer, id)
	if err == nil && !sqlexec.ReadTime(k.died).Equal(died) {
		err = fmt.Errorf("%s is not the dead letter that it was: %w", id.ID, store.ErrLost)
	}
	return err
}

// stepBack goes before what lets a dead letter hold its key again that had freed it.
func stepBack(ctx context.Context, x *sqlexec.Session, consumer string, id store.Identity) error {
	if _, err := x.Exec(ctx, "StepBack", consumer, id.Source, id.ID); err != nil {
		return fmt.Errorf("put a dead letter behind the calls of its key: %w", err)
	}
	return nil
}
