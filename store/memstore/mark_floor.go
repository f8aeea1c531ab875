package memstore

import (
	"maps"
	"time"

	"github.com/skald-go/skald/internal/retention"
	"github.com/skald-go/skald/internal/uuid7"
)

// farAhead is the maximum time by which a timestamp in an ID may be in the future. Retention ignores later
// timestamps.
const farAhead = 7 * 24 * time.Hour

// countedFrom returns the time from which the retention of a mark counts: the time when it was inserted, or
// the time in its ID if that is later.
func countedFrom(id string, inserted time.Time) time.Time {
	if at, ok := uuid7.Time(id); ok && at.After(inserted) && at.Before(inserted.Add(farAhead)) {
		return at
	}
	return inserted
}

// TooOld reports whether Forget may have deleted the mark of key.
func (ms *markTable) TooOld(key markKey) bool {
	at, ok := uuid7.Time(key.ID)
	return ok && !at.After(ms.floors[key.Consumer])
}

// Forget deletes the marks from before the cutoff, and expired marks. It also raises the floors of the
// consumers, so that a late duplicate of a deleted mark is TooOld.
func (ms *markTable) Forget(cutoff, now time.Time) int64 {
	was := len(ms.rows)
	maps.DeleteFunc(ms.rows, func(key markKey, r markRow) bool {
		if !r.deletable(now, cutoff) {
			return false
		}
		if r.at.After(ms.floors[key.Consumer]) {
			ms.floors[key.Consumer] = r.at
		}
		return true
	})
	return int64(was - len(ms.rows))
}

// Leaving returns the number of marks that Forget would delete.
func (ms *markTable) Leaving(cutoff, now time.Time) (n int64) {
	for _, r := range ms.rows {
		if r.deletable(now, cutoff) {
			n++
		}
	}
	return n
}

// deletable reports whether Forget deletes a mark.
func (r markRow) deletable(now, cutoff time.Time) bool {
	return r.isOver(now) && r.at.Before(now.Add(-retention.LeastMarks)) || r.at.Before(cutoff) &&
		(r.until.IsZero() || r.isOver(now))
}
