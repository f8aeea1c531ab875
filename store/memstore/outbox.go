package memstore

import (
	"context"

	"github.com/skald-go/skald/store"
)

// Lease takes, renews and releases shards for a relay.
func (s *Store) Lease(ctx context.Context, ask store.LeaseRequest) (got store.Leased, err error) {
	err = s.enter(ctx, func() error {
		if ask.Owner == "" {
			return nil
		}
		if err := s.db.outbox.NotMoved(ask.LastKnown); err != nil {
			return err
		}
		got = s.db.outbox.Lease(ask, s.db.now())
		return nil
	})
	if err == nil && ask.SnapshotBase != nil {
		err = s.enter(ctx, func() (err error) {
			got.Tip, err = s.db.outbox.Snapshot(*ask.SnapshotBase)
			return err
		})
	}
	return got, err
}

// Pull reads a page of the outbox rows in a window.
func (s *Store) Pull(ctx context.Context, w store.Window, limit int) (page store.Page, err error) {
	err = s.enter(ctx, func() error {
		page, err = s.db.outbox.Pull(w, limit)
		return err
	})
	return page, err
}

// Deferred reads the rows that the broker refused, and the rows that wait for them.
func (s *Store) Deferred(ctx context.Context, q store.DeferredQuery) (out store.Deferred, err error) {
	err = s.enter(ctx, func() error {
		if q.Keys {
			out.Keys = s.db.outbox.Keys(q.Shards)
		}
		if q.Due > 0 {
			out.Due = s.db.outbox.Due(q.Shards, q.Due, s.db.now())
		}
		return nil
	})
	return out, err
}

// Recover resets all shards to the oldest stored row, if the database moved. If audit is nil, it only checks
// whether the database moved.
func (s *Store) Recover(ctx context.Context, audit *store.Audit) (done store.Recovered, err error) {
	err = s.enter(ctx, func() error {
		done = s.db.outbox.Recover(audit == nil)
		if done.Moved != "" && audit != nil {
			s.db.audit.Note(*audit, s.db.now())
			s.wake()
		}
		return nil
	})
	return done, err
}
