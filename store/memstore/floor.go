package memstore

import (
	"maps"
	"time"

	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
)

// A floor is the time before which a consumer's marks may be forgotten.
type floor struct {
	since time.Time // when the consumer was first met
	at    time.Time // zero: none of its marks is forgotten
}

// tooOld tells of an identity without a mark whether its mark may be forgotten.
func (d *database) tooOld(m store.Mark) bool {
	at, ok := uuid7.Time(m.ID)
	return ok && at.Before(d.floors[m.Consumer].at)
}

// forget removes the marks of messages written before, and raises the floors of those whose marks they were. It spares
// consumers that were first met since: they may still be reading what is older.
func (d *database) forget(before time.Time) {
	for key := range d.marks {
		if _, met := d.floors[key.consumer]; !met {
			d.floors[key.consumer] = floor{since: d.now()}
		}
	}
	maps.DeleteFunc(d.marks, func(key markKey, m markRow) bool {
		f := d.floors[key.consumer]
		if !m.written().Before(before) || !f.since.Before(before) {
			return false
		}
		f.at = before
		d.floors[key.consumer] = f
		return true
	})
}
