// Package tracked is the choreographed sagas in memory that a flow follows. It is data alone: whoever calls
// holds the locks of the rows, and nothing here waits.
package tracked

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore/internal/table"
)

// Sagas are all tracked sagas.
type Sagas struct{ rows map[Key]store.Tracked }

// A Key is what a tracked saga is locked by.
type Key struct{ key, flow string }

// KeyOf is the key of a saga of a flow.
func KeyOf(key, flow string) Key { return Key{key, flow} }

// New has no sagas.
func New() *Sagas { return &Sagas{map[Key]store.Tracked{}} }

// A View is the tracked sagas as a transaction sees them.
type View struct{ table.View[Key, store.Tracked] }

// View is the tracked sagas as a transaction sees them.
func (ss *Sagas) View() View { return View{table.See(ss.rows)} }

// Open reads a row, or makes it.
func (v *View) Open(at Key, now time.Time) store.Tracked {
	t, there := v.Get(at)
	if !there {
		t = store.Tracked{Flow: at.flow, Key: at.key, At: now, Changed: now}
		v.Put(at, t)
	}
	return t
}

// Save writes a row.
func (v *View) Save(t store.Tracked, now time.Time) {
	at := KeyOf(t.Key, t.Flow)
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
func (ss *Sagas) List(q *store.TrackedQuery, limit int, now time.Time) (out []store.Tracked) {
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

// Count counts tracked sagas, of each flow of which a saga lives or drifted.
func (ss *Sagas) Count(now time.Time) (out []store.TrackedCounts) {
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
