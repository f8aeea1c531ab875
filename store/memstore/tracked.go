package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

var _ store.Tracker[*Tx] = (*Store)(nil)

// LockTracked reads and locks the rows of sagas, and creates missing rows.
func (s *Store) LockTracked(ctx context.Context, tx *Tx, flow string,
	keys ...string) (rows []store.Tracked, err error) {
	for _, key := range slices.Sorted(slices.Values(keys)) { // sorted to prevent deadlocks
		at := trackedKeyOf(key, flow)
		err := tx.run(func(d *database) error {
			if err := d.acquire(ctx, tx, at, time.Now().Add(tx.wait)); err != nil {
				return err
			}
			rows = append(rows, tx.tracks.Open(at, d.now()))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// saveTracked adds rows to the commit of tx. LockTracked must have locked these rows.
func (tx *Tx) saveTracked(rows []store.Tracked) {
	for _, t := range rows {
		tx.tracks.Save(t, tx.s.db.now())
	}
}
