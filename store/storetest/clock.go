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

// wrong is the difference of the clocks of hosts and producers from the store's, in either direction.
const wrong = 72 * time.Hour

// takenOnce handles a message and fails the test unless its mark is then Done.
func (s *suite[TTx]) takenOnce(m store.Mark) {
	s.Helper()
	u := s.begin(s.d, intake(m))
	s.found(u, store.Fresh)
	s.commit(u)
	s.wantRepeat(m, store.Done)
}

// wantRepeat repeats a message, alone and with another.
func (s *suite[TTx]) wantRepeat(m store.Mark, as store.Outcome) {
	s.Helper()
	u := s.begin(s.db.Driver(s), intake(m))
	s.found(u, as)
	s.rollback(u)
	other := mark()
	other.ID = recentID()
	u = s.begin(s.db.Driver(s), intake(other, m))
	s.found(u, store.Fresh, as)
	s.rollback(u)
	s.applied([]bool{false}, store.Effect{Mark: &m})
}

// clockProducers checks IDs of producers whose clocks are behind the store's or ahead of it: their marks
// are kept as long as others.
func (s *suite[TTx]) clockProducers() {
	behind, ahead := aged(wrong), aged(-wrong)
	s.takenOnce(behind)
	s.takenOnce(ahead)
	s.db.Age(s, 29*day)
	s.maintain()
	s.wantRepeat(behind, store.Done)
	s.wantRepeat(ahead, store.Done)
	s.db.Age(s, 2*day) // by its arrival it would be deleted now, with a floor below its ID
	s.maintain()
	s.wantRepeat(ahead, store.Done)
	s.seen(behind, store.Fresh)
}

// clockStepsBack sets the store's clock back after a message. The mark of the message is deleted later, but
// never without a higher floor.
func (s *suite[TTx]) clockStepsBack() {
	old := aged(40 * day)
	s.takenOnce(old)
	s.db.Age(s, -wrong)
	s.maintain()
	s.wantRepeat(old, store.Done)
	s.db.Age(s, 31*day)
	s.maintain()
	s.wantRepeat(old, store.Done)
	s.db.Age(s, wrong)
	s.waitUntil("the mark goes", func() bool {
		s.maintain()
		return s.db.Count(s).Marks == 0
	})
	s.wantRepeat(old, store.TooOld)
}

// clockStepsAhead runs the retention while the store's clock is ahead, then corrects the clock. A message
// whose mark was deleted too early is too old, and later ones are handled.
func (s *suite[TTx]) clockStepsAhead() {
	old := aged(40 * day)
	s.takenOnce(old)
	s.db.Age(s, 28*day)
	s.db.Age(s, wrong)
	s.waitUntil("the mark goes", func() bool {
		s.maintain()
		return s.db.Count(s).Marks == 0
	})
	s.db.Age(s, -wrong)
	s.wantRepeat(old, store.TooOld)
	later := mark()
	later.ID = recentID()
	s.takenOnce(later)
}

// clockFloorStays runs the retention while the store's clock is ahead, then sets the clock back to before the
// deleted marks. The mark of a new message is deleted, too, and the first floor stays.
func (s *suite[TTx]) clockFloorStays() {
	first, second := aged(33*day), mark()
	second.ID = "timeless"
	forgotten := func(m store.Mark, old time.Duration) {
		s.takenOnce(m)
		s.db.Age(s, old)
		s.waitUntil("the mark goes", func() bool {
			s.maintain()
			return s.db.Count(s).Marks == 0
		})
	}
	forgotten(first, 31*day)
	s.db.Age(s, -66*day)
	forgotten(second, 35*day)
	s.wantRepeat(first, store.TooOld)
}
