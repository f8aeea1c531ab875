package memstore

import (
	"maps"
	"time"

	"github.com/skald-go/skald/internal/retention"
	"github.com/skald-go/skald/internal/uuid7"
)

const farAhead = 7 * 24 * time.Hour // a timestamp in an ID that is further ahead is ignored

// counted returns the time from which the retention of a mark counts. This is the time at which the mark was
// stored, or the time in its ID if that is later.
func counted(id string, came time.Time) time.Time {
	if at, ok := uuid7.Time(id); ok && at.After(came) && at.Before(came.Add(farAhead)) {
		return at
	}
	return came
}

// TooOld reports whether the mark of an identity may have been deleted.
func (ms *markTable) TooOld(key markKey) bool {
	at, ok := uuid7.Time(key.ID)
	return ok && !at.After(ms.floors[key.Consumer])
}

// Forget deletes the marks from before the cutoff, and raises the floors of their consumers.
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
	return r.over(now) && r.at.Before(now.Add(-retention.LeastMarks)) || r.at.Before(cutoff) &&
		(r.until.IsZero() || r.over(now))
}
