package storetest

import (
	"errors"
	"time"

	"github.com/skald-go/skald/store"
)

func reseatTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"NothingMoved": (*suite[TTx]).reseatNothingMoved,
		"WentBack":     (*suite[TTx]).reseatWentBack,
		"TickGone":     (*suite[TTx]).reseatTickGone,
		"LaneBeyond":   (*suite[TTx]).reseatLaneBeyond,
	}
}

func (s *suite[TTx]) reseat(look bool) store.Reseated {
	s.Helper()
	note := &store.Audit{Who: "ann", Why: "it moved", What: "reseat"}
	if look {
		note = nil
	}
	was, err := s.d.AuditedLast(s.Context(), 0, 9)
	s.ok(err, "read the audit")
	done, err := s.d.Reseat(s.Context(), note)
	s.ok(err, "reseat")
	is, err := s.d.AuditedLast(s.Context(), 0, 9)
	s.ok(err, "read the audit")
	switch added := len(is) - len(was); {
	case done.Moved == "" || look:
		if added != 0 {
			s.Errorf("nothing is done, and noted: %+v", is[0])
		}
	case added != 1 || is[0].What != "reseat" || is[0].Why != "it moved":
		s.Errorf("of %+v it is noted %+v", done, is)
	}
	return done
}

func (s *suite[TTx]) knows(knew ...store.Lane) error {
	_, err := s.d.Lease(s.Context(), store.Ask{Owner: "one", Life: "1", TTL: time.Hour, Knew: knew})
	return err
}

func (s *suite[TTx]) wantMoved(err error, doing string) {
	s.Helper()
	var moved *store.MovedError
	if !errors.As(err, &moved) || moved.Saw == "" || !errors.Is(err, store.ErrMoved) || !store.Incurable(err) || s.d.Outage(err) {
		s.Fatalf("%s: got %v, want that the database moved", doing, err)
	}
}

// What a relay knew and the database knows too is no move; neither is a lane that somebody else has by now.
func (s *suite[TTx]) reseatNothingMoved() {
	s.say(message("a", 1))
	was := s.lease(s.d, "one", "1")
	c := s.advance(was[0])
	was[0].Cursor = c
	s.ok(s.knows(was...), "lease")
	gone := was[1]
	gone.Cursor.Base = c.Base + "9"
	s.ask(s.d, store.Ask{Owner: "one", Life: "1", TTL: time.Hour, Free: []int{gone.ID}})
	s.ask(s.d, store.Ask{Owner: "two", Life: "1", TTL: time.Hour})
	s.ok(s.knows(gone), "lease, of a lane that another relay has taken")
	if done := s.reseat(false); done != (store.Reseated{}) {
		s.Errorf("where nothing moved the reseat does %+v", done)
	}
	if got := s.lease(s.d, "one", "1")[0]; got.Epoch != was[0].Epoch || got.Token != was[0].Token || got.Cursor != c {
		s.Errorf("and the lane goes from %+v to %+v", was[0], got)
	}
}

// A database that is behind what a relay knows: no relay gets a lane until the reseat; then all that is retained and not
// known as acknowledged is read, in order, with what was written meanwhile.
func (s *suite[TTx]) reseatWentBack() {
	a, b, later := message("a", 1), message("a", 2), message("a", 3)
	s.say(a)
	was := s.lease(s.d, "one", "1")
	s.say(b)
	ahead := was[0]
	ahead.Epoch++
	s.wantMoved(s.knows(ahead), "lease")
	s.wantMoved(s.knows(), "lease again")
	_, err := s.db.Driver(s).Lease(s.Context(), store.Ask{Owner: "two", Life: "1"})
	s.wantMoved(err, "another relay's lease")
	looked := s.reseat(true)
	s.wantMoved(s.knows(), "lease after a look")
	s.say(later)
	done := s.reseat(false)
	if looked.Moved == "" || looked.Again != 0 || done.Moved != looked.Moved || done.Again != 3 || done.Covered != 0 || done.Lanes != lanes {
		s.Errorf("a look sees %+v, the reseat does %+v", looked, done)
	}
	if again := s.reseat(false); again != (store.Reseated{}) {
		s.Errorf("the second reseat does %+v", again)
	}
	s.applied([]bool{false}, progress(under(was[0])))
	is := s.lease(s.d, "two", "1")
	if len(is) != lanes || is[0].Epoch <= was[0].Epoch || is[0].Token == was[0].Token {
		s.Fatalf("after the reseat lane %d goes from %+v to %+v", was[0].ID, was[0], is)
	}
	_, got := s.since(is[0].Cursor.Base)
	s.wantIDs(got, a.ID, b.ID, later.ID)
}

func (s *suite[TTx]) reseatTickGone() {
	s.say(message("a", 1))
	knew := s.lease(s.d, "one", "1")[0]
	knew.Cursor.Base = s.tick("") + "9"
	s.wantMoved(s.knows(knew), "lease")
	s.reseat(false)
	s.ok(s.knows(), "lease after the reseat")
}

// A lane that names a tick which is not there.
func (s *suite[TTx]) reseatLaneBeyond() {
	a := message("a", 1)
	s.say(a)
	p := under(s.lease(s.d, "one", "1")[3])
	p.Cursor = &store.Cursor{Base: s.tick("") + "9"}
	s.apply(progress(p))
	s.wantMoved(s.knows(), "lease")
	if done := s.reseat(false); done.Again != 1 {
		s.Errorf("the reseat does %+v", done)
	}
	is := s.lease(s.d, "one", "1")[3]
	_, got := s.since(is.Cursor.Base)
	s.wantIDs(got, a.ID)
}
