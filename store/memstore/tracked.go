package memstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

var _ store.Tracker[*Tx] = (*Store)(nil)

type trackedKey struct{ key, flow string }

// LockTracked reads the rows of sagas, or makes them. Rivals wait until tx ends.
func (s *Store) LockTracked(ctx context.Context, tx *Tx, flow string,
	keys ...string) (rows []store.Tracked, err error) {
	for _, key := range slices.Sorted(slices.Values(keys)) { // rivals do not wait in a circle
		t, err := s.lockTracked(ctx, tx, trackedKey{key, flow})
		if err != nil {
			return nil, err
		}
		rows = append(rows, t)
	}
	return rows, nil
}

func (*Store) lockTracked(ctx context.Context, tx *Tx, at trackedKey) (t store.Tracked, err error) {
	err = tx.do(func(d *database) error {
		if err := d.acquire(ctx, tx, at, time.Now().Add(tx.wait)); err != nil {
			return err
		}
		var mine, there bool
		if t, mine = tx.tracks[at]; mine {
			return nil
		}
		if t, there = d.tracked[at]; !there {
			t = store.Tracked{Flow: at.flow, Key: at.key, At: d.now(), Changed: d.now()}
			tx.tracks[at] = t
		}
		return nil
	})
	return t, err
}

// SaveTracked writes rows that LockTracked locked.
func (*Store) SaveTracked(_ context.Context, tx *Tx, rows ...store.Tracked) error {
	return tx.do(func(d *database) error {
		for _, t := range rows {
			at := trackedKey{t.Key, t.Flow}
			was := tx.trackedOf(at, d)
			t.Changed, t.Drifted = d.now(), was.Drifted
			switch {
			case t.Drift == 0:
				t.Drifted = time.Time{}
			case t.Drift > was.Drift:
				t.Drifted = d.now()
			}
			tx.tracks[at] = t
		}
		return nil
	})
}

// tracked lists tracked sagas.
func (s *Store) tracked(ctx context.Context, q store.TrackedQuery) (out []store.Tracked, err error) {
	err = s.enter(ctx, func() error {
		now := s.db.now()
		for _, t := range s.db.tracked {
			is := func(want, have string) bool { return want == "" || want == have }
			late := !t.Due.IsZero() && t.Due.Before(now)
			if is(q.Flow, t.Flow) && is(q.Key, t.Key) && is(q.State, t.State) && (late || !q.Overdue) {
				out = append(out, t)
			}
		}
		return nil
	})
	slices.SortFunc(out,
		func(a, b store.Tracked) int {
			return cmp.Or(cmp.Compare(a.Key, b.Key),
				cmp.Compare(a.Flow, b.Flow))
		})
	return out[:min(len(out), cmp.Or(q.Limit, defaultLimit))], err
}

// trackedOf is the row as tx sees it.
func (tx *Tx) trackedOf(at trackedKey, d *database) store.Tracked {
	if t, mine := tx.tracks[at]; mine {
		return t
	}
	return d.tracked[at]
}

// countTracked counts tracked sagas, of each flow of which a saga lives or drifted.
func (d *database) countTracked() (out []store.TrackedCounts) {
	now, counts := d.now(), map[string]store.TrackedCounts{}
	due, drifted := map[string]time.Time{}, map[string]time.Time{}
	for _, t := range d.tracked {
		live := t.State == "running" || t.State == "compensating"
		if !live && t.Drifted.IsZero() {
			continue
		}
		c := counts[t.Flow]
		c.Flow = t.Flow
		c.Running += one(t.State == "running")
		c.Compensating += one(t.State == "compensating")
		if live && !t.Due.IsZero() && t.Due.Before(now) {
			if c.Overdue++; due[t.Flow].IsZero() || t.Due.Before(due[t.Flow]) {
				c.OverdueKey, due[t.Flow] = t.Key, t.Due
			}
		}
		if now.Sub(t.Drifted) < 24*time.Hour {
			if c.Drifted++; !t.Drifted.Before(drifted[t.Flow]) {
				c.DriftedKey, drifted[t.Flow] = t.Key, t.Drifted
			}
		}
		counts[t.Flow] = c
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, counts[name])
	}
	return out
}
