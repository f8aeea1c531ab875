package storetest

import (
	"time"

	"github.com/skald-go/skald/store"
)

func clockTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"Producers":  (*suite[TTx]).clockProducers,
		"StepsBack":  (*suite[TTx]).clockStepsBack,
		"StepsAhead": (*suite[TTx]).clockStepsAhead,
		"FloorStays": (*suite[TTx]).clockFloorStays,
	}
}

// wrong is how far the clocks of hosts and producers may be from the store's, in either direction.
const wrong = 72 * time.Hour

// takenOnce takes a message and wants it to be done.
func (s *suite[TTx]) takenOnce(m store.Mark) {
	s.Helper()
	u := s.begin(s.d, intake(m))
	s.found(u, store.Fresh)
	s.commit(u)
	s.notAgain(m, store.Done)
}

// notAgain has a message come again, alone and with another.
func (s *suite[TTx]) notAgain(m store.Mark, as store.Outcome) {
	s.Helper()
	u := s.begin(s.db.Driver(s), intake(m))
	s.found(u, as)
	s.rollback(u)
	other := mark()
	other.ID = since()
	u = s.begin(s.db.Driver(s), intake(other, m))
	s.found(u, store.Fresh, as)
	s.rollback(u)
	s.applied([]bool{false}, store.Effect{Mark: &m})
}

// Ids of producers whose clocks are behind the store's or ahead of it: their marks are kept for as long as
// others.
func (s *suite[TTx]) clockProducers() {
	behind, ahead := aged(wrong), aged(-wrong)
	s.takenOnce(behind)
	s.takenOnce(ahead)
	s.db.Age(s, 29*day)
	s.maintain()
	s.notAgain(behind, store.Done)
	s.notAgain(ahead, store.Done)
	s.db.Age(s, 2*day) // by its arrival it would go now, and the floor would be below its id
	s.maintain()
	s.notAgain(ahead, store.Done)
	s.seen(behind, store.Fresh)
}

// The store's clock is set back behind a message. Its mark goes later, and never without its floor.
func (s *suite[TTx]) clockStepsBack() {
	old := aged(40 * day)
	s.takenOnce(old)
	s.db.Age(s, -wrong)
	s.maintain()
	s.notAgain(old, store.Done)
	s.db.Age(s, 31*day)
	s.maintain()
	s.notAgain(old, store.Done)
	s.db.Age(s, wrong)
	s.until("the mark goes", func() bool {
		s.maintain()
		return s.db.Count(s).Marks == 0
	})
	s.notAgain(old, store.TooOld)
}

// The retention runs while the store's clock is ahead, which is then set right: what it forgot too early is
// too old, and what comes later is taken.
func (s *suite[TTx]) clockStepsAhead() {
	old := aged(40 * day)
	s.takenOnce(old)
	s.db.Age(s, 28*day)
	s.db.Age(s, wrong)
	s.until("the mark goes", func() bool {
		s.maintain()
		return s.db.Count(s).Marks == 0
	})
	s.db.Age(s, -wrong)
	s.notAgain(old, store.TooOld)
	later := mark()
	later.ID = since()
	s.takenOnce(later)
}

// The retention runs while the store's clock is ahead. The clock is then set back behind what it forgot, and
// a message that comes now is forgotten, too: the floor of what was forgotten first stays.
func (s *suite[TTx]) clockFloorStays() {
	first, second := aged(33*day), mark()
	second.ID = "timeless"
	forgotten := func(m store.Mark, old time.Duration) {
		s.takenOnce(m)
		s.db.Age(s, old)
		s.until("the mark goes", func() bool {
			s.maintain()
			return s.db.Count(s).Marks == 0
		})
	}
	forgotten(first, 31*day)
	s.db.Age(s, -66*day)
	forgotten(second, 35*day)
	s.notAgain(first, store.TooOld)
}
