// This file is the marks in memory: which messages a consumer has finished, with what they answered, and
// from when on they are forgotten. It is data alone: whoever calls holds the locks, and nothing here waits.

package memstore

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
)

// markTable are all marks, and the floors of their consumers.
type markTable struct {
	rows    map[markKey]markRow
	floors  map[string]time.Time // of consumers: the latest mark that was forgotten
	arrival int64                // last number drawn
}

// A markKey is what a mark is known by.
type markKey struct {
	Consumer string
	store.Identity
}

// keyOf is the key of m.
func keyOf(m *store.Mark) markKey { return markKey{m.Consumer, m.Identity} }

// A markRow is a mark.
type markRow struct {
	store.Mark
	Arrival  int64 // grows with each mark in the order in which they were taken
	answered bool
	at       time.Time // when it came, or was written, if that is later
	until    time.Time // it stands; zero: as long as marks are kept
}

// newMark has no marks.
func newMark() *markTable {
	return &markTable{rows: map[markKey]markRow{}, floors: map[string]time.Time{}}
}

// storable tells whether a mark can say o.
func storable(o store.Outcome) bool {
	return o == store.Done || o == store.Rejected || o == store.Barred
}

// View is the marks as a transaction sees them.
func (ms *markTable) View() view { return view{see(ms.rows), ms} }

// Seen is what is known of a message; Fresh: nothing.
func (ms *markTable) Seen(key markKey, now time.Time) (v store.Verdict) {
	v, _ = ms.Find(key, 1, now)
	return v
}

// Find looks for a mark. Whoever keeps his own for some time takes none that has expired.
func (ms *markTable) Find(key markKey, keep time.Duration, now time.Time) (v store.Verdict, found bool) {
	if m, there := ms.rows[key]; there && m.stands(keep, now) {
		return m.verdict(now), true
	}
	return v, false
}

func (r markRow) stands(keep time.Duration, now time.Time) bool { return keep == 0 || !r.expired(now) }

// over tells whether the time of a mark is over that a scope gave it.
func (r markRow) over(now time.Time) bool { return !r.until.IsZero() && !r.until.After(now) }

// expired tells of a mark that stands for nothing any more. Where the id tells a time, that decides.
func (r markRow) expired(now time.Time) bool {
	_, timed := uuid7.Time(r.ID)
	return !timed && r.over(now)
}

func (r markRow) verdict(now time.Time) store.Verdict {
	v := store.Verdict{Outcome: r.As, Reason: r.Reason, Fingerprint: r.Fingerprint, Code: r.Code,
		Result: r.Result, Emitted: r.Emitted, Headers: r.Headers}
	if !r.until.IsZero() {
		v.Left = cmp.Or(r.until.Sub(now), -1)
	}
	return v
}

// Rows are all marks, by arrival.
func (ms *markTable) Rows() []markRow {
	return slices.SortedFunc(maps.Values(ms.rows),
		func(a, b markRow) int { return cmp.Compare(a.Arrival, b.Arrival) })
}

// Belonging counts what a consumer has here into b.
func (ms *markTable) Belonging(consumer string, b *store.Belongings) {
	for key := range ms.rows {
		if key.Consumer == consumer {
			b.Marks++
		}
	}
	if _, floor := ms.floors[consumer]; floor {
		b.Floors++
	}
}

// Rename gives what a consumer has here to another name.
func (ms *markTable) Rename(was, is string) {
	move(ms.rows, func(k markKey, r markRow) (markKey, markRow, bool) {
		of := k.Consumer == was
		k.Consumer, r.Consumer = is, is
		return k, r, of
	})
	move(ms.floors,
		func(k string, at time.Time) (string, time.Time, bool) { return is, at, k == was })
}
