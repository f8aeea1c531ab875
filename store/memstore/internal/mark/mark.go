// Package mark is the marks in memory: which messages a consumer has finished, with what they answered, and
// from when on they are forgotten. It is data alone: whoever calls holds the locks, and nothing here waits.
package mark

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore/internal/table"
)

// Marks are all marks, and the floors of their consumers.
type Marks struct {
	rows    map[Key]Row
	floors  map[string]time.Time // of consumers: the latest mark that was forgotten
	arrival int64                // last number drawn
}

// A Key is what a mark is known by.
type Key struct {
	Consumer string
	store.Identity
}

// KeyOf is the key of m.
func KeyOf(m *store.Mark) Key { return Key{m.Consumer, m.Identity} }

// A Row is a mark.
type Row struct {
	store.Mark
	Arrival  int64 // grows with each mark in the order in which they were taken
	answered bool
	at       time.Time // when it came, or was written, if that is later
	until    time.Time // it stands; zero: as long as marks are kept
}

// New has no marks.
func New() *Marks { return &Marks{rows: map[Key]Row{}, floors: map[string]time.Time{}} }

// Storable tells whether a mark can say o.
func Storable(o store.Outcome) bool {
	return o == store.Done || o == store.Rejected || o == store.Barred
}

// View is the marks as a transaction sees them.
func (ms *Marks) View() View { return View{table.See(ms.rows), ms} }

// Seen is what is known of a message; Fresh: nothing.
func (ms *Marks) Seen(key Key, now time.Time) (v store.Verdict) {
	v, _ = ms.Find(key, 1, now)
	return v
}

// Find looks for a mark. Whoever keeps his own for some time takes none that has expired.
func (ms *Marks) Find(key Key, keep time.Duration, now time.Time) (v store.Verdict, found bool) {
	if m, there := ms.rows[key]; there && m.stands(keep, now) {
		return m.verdict(now), true
	}
	return v, false
}

func (r Row) stands(keep time.Duration, now time.Time) bool { return keep == 0 || !r.expired(now) }

// over tells whether the time of a mark is over that a scope gave it.
func (r Row) over(now time.Time) bool { return !r.until.IsZero() && !r.until.After(now) }

// expired tells of a mark that stands for nothing any more. Where the id tells a time, that decides.
func (r Row) expired(now time.Time) bool {
	_, timed := uuid7.Time(r.ID)
	return !timed && r.over(now)
}

func (r Row) verdict(now time.Time) store.Verdict {
	v := store.Verdict{Outcome: r.As, Reason: r.Reason, Fingerprint: r.Fingerprint, Code: r.Code,
		Result: r.Result, Emitted: r.Emitted, Headers: r.Headers}
	if !r.until.IsZero() {
		v.Left = cmp.Or(r.until.Sub(now), -1)
	}
	return v
}

// Rows are all marks, by arrival.
func (ms *Marks) Rows() []Row {
	return slices.SortedFunc(maps.Values(ms.rows),
		func(a, b Row) int { return cmp.Compare(a.Arrival, b.Arrival) })
}

// Belonging counts what a consumer has here into b.
func (ms *Marks) Belonging(consumer string, b *store.Belongings) {
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
func (ms *Marks) Rename(was, is string) {
	table.Move(ms.rows, func(k Key, r Row) (Key, Row, bool) {
		of := k.Consumer == was
		k.Consumer, r.Consumer = is, is
		return k, r, of
	})
	table.Move(ms.floors,
		func(k string, at time.Time) (string, time.Time, bool) { return is, at, k == was })
}
