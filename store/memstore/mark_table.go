// The files mark*.go have the marks of finished messages and their answers. The methods of markTable need no
// locks and never wait, because the caller has locked the marks.

package memstore

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
)

// markTable has all marks, and the floors of their consumers.
type markTable struct {
	rows    map[markKey]markRow
	floors  map[string]time.Time // time of the latest deleted mark of each consumer
	arrival int64                // the last used Arrival
}

// markKey identifies a mark.
type markKey struct {
	Consumer string
	store.Identity
}

// keyOf returns the key of m.
func keyOf(m *store.Mark) markKey { return markKey{m.Consumer, m.Identity} }

// markRow is a stored mark.
type markRow struct {
	store.Mark
	Arrival  int64 // number in the order of inserts
	answered bool
	at       time.Time // time of the insert, or the time in the ID if that is later
	until    time.Time // the end of Keep; zero means the general retention
}

// newMark returns an empty table.
func newMark() *markTable {
	return &markTable{rows: map[markKey]markRow{}, floors: map[string]time.Time{}}
}

// storable reports whether o can be stored in a mark.
func storable(o store.Outcome) bool {
	return o == store.Done || o == store.Rejected || o == store.Barred
}

// View returns the marks for a transaction.
func (ms *markTable) View() view { return view{newView(ms.rows), ms} }

// Verdict returns the verdict of a message; Fresh if it has no mark.
func (ms *markTable) Verdict(key markKey, now time.Time) (v store.Verdict) {
	v, _ = ms.Find(key, 1, now)
	return v
}

// Find looks for a mark. It ignores an expired mark, unless keep is 0.
func (ms *markTable) Find(key markKey, keep time.Duration, now time.Time) (v store.Verdict, found bool) {
	if m, there := ms.rows[key]; there && m.counts(keep, now) {
		return m.verdict(now), true
	}
	return v, false
}

func (r markRow) counts(keep time.Duration, now time.Time) bool { return keep == 0 || !r.expired(now) }

// isOver reports whether the retention Keep of a mark has ended.
func (r markRow) isOver(now time.Time) bool { return !r.until.IsZero() && !r.until.After(now) }

// expired reports whether a mark no longer counts. A mark with a timestamp in its ID never expires, because
// the floor applies instead.
func (r markRow) expired(now time.Time) bool {
	_, timed := uuid7.Time(r.ID)
	return !timed && r.isOver(now)
}

func (r markRow) verdict(now time.Time) store.Verdict {
	v := store.Verdict{Outcome: r.Outcome, Reason: r.Reason, Fingerprint: r.Fingerprint, Code: r.Code,
		Result: r.Result, Emitted: r.Emitted, Headers: r.Headers}
	if !r.until.IsZero() {
		v.Left = cmp.Or(r.until.Sub(now), -1)
	}
	return v
}

// Rows returns all marks, by arrival.
func (ms *markTable) Rows() []markRow {
	return slices.SortedFunc(maps.Values(ms.rows),
		func(a, b markRow) int { return cmp.Compare(a.Arrival, b.Arrival) })
}

// Belonging adds the numbers of the consumer's marks and floors to b.
func (ms *markTable) Belonging(consumer string, b *store.ConsumerRows) {
	for key := range ms.rows {
		if key.Consumer == consumer {
			b.Marks++
		}
	}
	if _, floor := ms.floors[consumer]; floor {
		b.Floors++
	}
}

// Rename moves the rows of a consumer to another name.
func (ms *markTable) Rename(was, is string) {
	move(ms.rows, func(k markKey, r markRow) (markKey, markRow, bool) {
		of := k.Consumer == was
		k.Consumer, r.Consumer = is, is
		return k, r, of
	})
	move(ms.floors,
		func(k string, at time.Time) (string, time.Time, bool) { return is, at, k == was })
}
