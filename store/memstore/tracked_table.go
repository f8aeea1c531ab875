// This file has the choreographed sagas that trackers follow. Its methods need no locks and never wait,
// because the caller has locked the rows.

package memstore

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

// trackedTable has all tracked sagas.
type trackedTable struct{ rows map[trackedKey]store.Tracked }

// trackedKey is the lock of a tracked saga.
type trackedKey struct{ key, flow string }

// trackedKeyOf returns the key of a saga of a flow.
func trackedKeyOf(key, flow string) trackedKey { return trackedKey{key, flow} }

// newTracked returns an empty table.
func newTracked() *trackedTable { return &trackedTable{map[trackedKey]store.Tracked{}} }

// trackedView has the tracked sagas as one transaction reads them.
type trackedView struct {
	tableView[trackedKey, store.Tracked]
}

// View returns the tracked sagas for a transaction.
func (ss *trackedTable) View() trackedView { return trackedView{newView(ss.rows)} }

// Open reads a row, or creates it.
func (v *trackedView) Open(at trackedKey, now time.Time) store.Tracked {
	t, there := v.Get(at)
	if !there {
		t = store.Tracked{Flow: at.flow, Key: at.key, At: now, Changed: now}
		v.Put(at, t)
	}
	return t
}

// Save writes a row.
func (v *trackedView) Save(t store.Tracked, now time.Time) {
	at := trackedKeyOf(t.Key, t.Flow)
	was, _ := v.Get(at)
	t.Changed, t.Drifted = now, was.Drifted
	switch {
	case t.Drift == 0:
		t.Drifted = time.Time{}
	case t.Drift > was.Drift:
		t.Drifted = now
	}
	v.Put(at, t)
}

// List lists tracked sagas.
func (ss *trackedTable) List(q *store.TrackedQuery, limit int, now time.Time) (out []store.Tracked) {
	is := func(want, have string) bool { return want == "" || want == have }
	for _, t := range ss.rows {
		late := !t.Due.IsZero() && t.Due.Before(now)
		if is(q.Flow, t.Flow) && is(q.Key, t.Key) && is(q.State, t.State) && (late || !q.Overdue) {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b store.Tracked) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Flow, b.Flow))
	})
	return out[:min(len(out), limit)]
}

// Count counts tracked sagas by flow. It includes only flows with a running or drifted saga.
func (ss *trackedTable) Count(now time.Time) (out []store.TrackedCounts) {
	counts := map[string]store.TrackedCounts{}
	due, drifted := map[string]time.Time{}, map[string]time.Time{}
	for _, t := range ss.rows {
		live := t.State == "running" || t.State == "compensating"
		if !live && t.Drifted.IsZero() {
			continue
		}
		c := counts[t.Flow]
		c.Flow = t.Flow
		switch t.State {
		case "running":
			c.Running++
		case "compensating":
			c.Compensating++
		}
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
