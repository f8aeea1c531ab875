package memstore

import (
	"maps"
	"time"

	"github.com/skald-go/skald/internal/retention"
	"github.com/skald-go/skald/internal/uuid7"
)

const farAhead = 7 * 24 * time.Hour // an id that is further ahead of the clock when it comes tells no time

// counted is the time by which the mark of a message goes: when it came, or when it was written, if that is
// later.
func counted(id string, came time.Time) time.Time {
	if at, ok := uuid7.Time(id); ok && at.After(came) && at.Before(came.Add(farAhead)) {
		return at
	}
	return came
}

// TooOld tells of an identity without a mark whether its mark may be forgotten.
func (ms *markTable) TooOld(key markKey) bool {
	at, ok := uuid7.Time(key.ID)
	return ok && !at.After(ms.floors[key.Consumer])
}

// Forget removes the marks of before, and raises the floors of those whose marks they were.
func (ms *markTable) Forget(before, now time.Time) int64 {
	was := len(ms.rows)
	maps.DeleteFunc(ms.rows, func(key markKey, r markRow) bool {
		if !r.leaves(now, before) {
			return false
		}
		if r.at.After(ms.floors[key.Consumer]) {
			ms.floors[key.Consumer] = r.at
		}
		return true
	})
	return int64(was - len(ms.rows))
}

// Leaving is how many marks Forget would remove.
func (ms *markTable) Leaving(before, now time.Time) (n int64) {
	for _, r := range ms.rows {
		if r.leaves(now, before) {
			n++
		}
	}
	return n
}

// leaves tells whether a mark goes, of which those of before do.
func (r markRow) leaves(now, before time.Time) bool {
	return r.over(now) && r.at.Before(now.Add(-retention.LeastMarks)) || r.at.Before(before) &&
		(r.until.IsZero() || r.over(now))
}
