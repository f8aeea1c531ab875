package memstore

import (
	"maps"
	"time"

	"github.com/skald-go/skald/internal/retention"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
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

// tooOld tells of an identity without a mark whether its mark may be forgotten.
func (d *database) tooOld(m store.Mark) bool {
	at, ok := uuid7.Time(m.ID)
	return ok && !at.After(d.floors[m.Consumer])
}

// came is the row of a mark that comes now.
func (d *database) came(m store.Mark) markRow {
	now := d.now()
	row := markRow{Mark: m, arrival: d.arrival, at: counted(m.ID, now)}
	if m.Keep > 0 {
		row.until = now.Add(m.Keep)
	}
	row.Keep = 0
	return row
}

// over tells whether the time of a mark is over that a scope gave it.
func (m markRow) over(now time.Time) bool { return !m.until.IsZero() && !m.until.After(now) }

// expired tells of a mark that stands for nothing any more. Where the id tells a time, that decides.
func (d *database) expired(m markRow) bool {
	_, timed := uuid7.Time(m.ID)
	return !timed && m.over(d.now())
}

// leaves tells whether a mark goes, of which those of before do.
func (m markRow) leaves(now, before time.Time) bool {
	return m.over(now) && m.at.Before(now.Add(-retention.LeastMarks)) || m.at.Before(before) &&
		(m.until.IsZero() || m.over(now))
}

// forget removes the marks of before, and raises the floors of those whose marks they were.
func (d *database) forget(before time.Time) {
	now := d.now()
	maps.DeleteFunc(d.marks, func(key markKey, m markRow) bool {
		if !m.leaves(now, before) {
			return false
		}
		if m.at.After(d.floors[key.consumer]) {
			d.floors[key.consumer] = m.at
		}
		return true
	})
}
