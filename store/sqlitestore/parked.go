package sqlitestore

import (
	"context"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// Claim claims due parked messages or sagas. It writes nothing if no work is due.
func (s *Store) Claim(ctx context.Context, w store.ClaimRequest) (store.Claimed, error) {
	if w.Sagas != nil {
		return s.sagas.Claim(ctx, w)
	}
	c, err := claim(ctx, s.run, w)
	if err == nil && w.Sync {
		c.Sync, err = s.synced(ctx, store.SyncRequest{Consumer: w.Consumer})
	}
	return c, err
}

// keep applies the changes of e to parked messages.
func keep(ctx context.Context, x *sqlexec.Session, e *store.Effect) error {
	if e.Park != nil {
		if err := park(ctx, x, e.Park); err != nil {
			return err
		}
		if err := noteStep(ctx, x, e.Park); err != nil {
			return err
		}
	}
	if r := e.Requeue; r != nil {
		if err := release(ctx, x, r); err != nil {
			return err
		}
	}
	if f := e.Finish; f != nil {
		if err := finish(ctx, x, f); err != nil {
			return err
		}
	}
	if r := e.Rewind; r != nil {
		if err := rewind(ctx, x, r); err != nil {
			return err
		}
	}
	if err := operate(ctx, x, e); err != nil {
		return err
	}
	return note(ctx, x, e.Audit)
}
