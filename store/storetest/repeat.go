package storetest

import (
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

// parkedRepeatAnytime repeats a message in each of its states, and checks that the repeat is recognized: in
// the first run, parked, claimed, dead, redriven, in the next run, done, and after its mark was deleted. The
// message has one effect in all.
func (s *suite[TTx]) parkedRepeatAnytime() {
	old := aged(tooOld)
	p := parked("k", 1)
	p.Identity, p.Message.ID = old.Identity, old.ID
	p.Message.Source = old.Source
	// The first run fails. If it is undone and parked in two transactions, the repeat may run between them.
	// If the repeat commits, the guard of the park is lost: see parkedTooLate.
	s.repeatWhile(arriving(p), []store.Outcome{store.Waiting, store.Fresh}, func(u store.Unit[TTx]) {
		stored, err := u.Rollback(s.Context(), keeping(p)...)
		s.ok(err, "park")
		if !stored[0] {
			s.Fatal("it is not parked")
		}
	})
	s.repeats(p, store.Waiting)
	s.claim(time.Minute, "1")
	s.repeats(p, store.Waiting)
	s.apply(parkAgain(p, func(p *store.Parked) { p.Dead = &store.Death{Kind: "permanent", BlocksKey: true} }))
	s.repeats(p, store.Dead)
	s.apply(released(p))
	s.repeats(p, store.Waiting)
	p.Attempts = 0
	s.claim(time.Minute, "1")
	s.repeatWhile(retrying(p), []store.Outcome{store.Done}, func(u store.Unit[TTx]) {
		s.put(u.Tx(), "effect", "once")
		s.commit(u, freed(p, nil))
	})
	s.wantUser("effect", "once")
	s.repeats(p, store.Done)
	no := aged(tooOld)
	s.apply(func() store.Effect { m := rejected(no, "no"); return store.Effect{Mark: &m} }())
	refused := parked("l", 2)
	refused.Identity = no.Identity
	s.repeats(refused, store.Rejected)
	s.db.Age(s, 31*day)
	s.waitUntil("the marks go", func() bool {
		s.maintain()
		return s.db.Count(s).Marks == 0
	})
	s.repeats(p, store.TooOld)
	s.repeats(refused, store.TooOld)
	s.claim(0)
}

// repeats sends a message twice more, and fails the test unless the repeats are recognized.
func (s *suite[TTx]) repeats(p store.Parked, as store.Outcome) {
	s.Helper()
	s.wantOutcome(arriving(p), as)
	s.wantOutcome(arriving(p), as)
	if as != store.TooOld { // consumers check for it before they park
		s.applied([]bool{false}, keeping(p)...)
	}
}

// repeatWhile repeats a message while the message is in progress. The repeat must wait and find the outcome.
func (s *suite[TTx]) repeatWhile(m store.Mark, as []store.Outcome, end func(store.Unit[TTx])) {
	s.Helper()
	u := s.begin(s.d, intake(m))
	s.found(u, store.Fresh)
	m.KeyOrder = store.Arriving
	rival := s.db.Driver(s)
	var found store.Outcome
	var err error
	came := meanwhile(func() {
		var r store.Unit[TTx]
		if r, err = rival.Begin(s.Context(), intake(m)); err == nil {
			found = r.Found().Marks[0].Outcome
			_, _ = r.Rollback(s.Context())
		}
	})
	s.wantBlocked(came, "a repeat of what is in hand")
	end(u)
	s.comes(came, "the repeat")
	s.ok(err, "the repeat's begin")
	if !slices.Contains(as, found) {
		s.Fatalf("the repeat finds %v, want %v", found, as)
	}
}
