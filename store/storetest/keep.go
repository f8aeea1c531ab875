package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald/store"
)

// keepTests are for marks with Keep.
func keepTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"SideBySide":  (*suite[TTx]).keepSideBySide,
		"Reservation": (*suite[TTx]).keepReservation,
		"Rivals":      (*suite[TTx]).keepRivals,
		"RolledBack":  (*suite[TTx]).keepRolledBack,
		"Guard":       (*suite[TTx]).keepGuard,
		"Timed":       (*suite[TTx]).keepTimed,
		"Longer":      (*suite[TTx]).keepLonger,
	}
}

// scoped returns a mark with an answer, whose ID has no timestamp.
func scoped(scope string, keep time.Duration) store.Mark {
	m := mark()
	m.Consumer, m.ID, m.Keep, m.Fingerprint = scope, "order-7", keep, 1
	m.Code, m.Result = 201, "first"
	return m
}

// answered commits m with its mark in the intake and its answer in the commit.
func (s *suite[TTx]) answered(m store.Mark) {
	s.Helper()
	u := s.begin(s.d, intake(m))
	s.found(u, store.Fresh)
	s.commit(u, store.Effect{Answer: &m})
}

// keepSideBySide checks scopes of 24 hours, 48 hours and 30 days in one database. A key is fresh after its
// Keep, before Maintain and after.
func (s *suite[TTx]) keepSideBySide() {
	all := []store.Mark{scoped("a", day), scoped("b", 2*day), scoped("c", 30*day), scoped("d", 0)}
	for _, m := range all {
		s.answered(m)
	}
	ages := []time.Duration{0, 25 * time.Hour, 49*time.Hour - 25*time.Hour, 31*day - 49*time.Hour}
	for left, age := range ages {
		s.db.Age(s, age)
		for i, m := range all {
			want := store.Verdict{Outcome: store.Done, Fingerprint: 1, Code: 201, Result: "first"}
			if i < left {
				want = store.Verdict{}
			}
			s.verdict(m, want)
			s.wantLeft(m, i >= left && m.Keep > 0)
			u := s.begin(s.d, intake(m))
			s.found(u, want.Outcome)
			s.rollback(u)
		}
		if left == 3 {
			break
		}
		s.waitUntil(fmt.Sprint(left, " are gone"), func() bool {
			s.maintain()
			return s.db.Count(s).Marks == len(all)-left
		})
		for i, m := range all {
			s.seen(m, []store.Outcome{store.Done, store.Fresh}[one(i < left)])
		}
	}
}

// wantLeft compares the remaining time of the mark of m. It fails the test if kept is true and no time
// remains, or if kept is false and some time remains.
func (s *suite[TTx]) wantLeft(m store.Mark, kept bool) {
	s.Helper()
	got, err := s.d.Seen(s.Context(), m.Consumer, []store.Identity{m.Identity})
	s.ok(err, "seen")
	u := s.begin(s.d, intake(m))
	for _, v := range append(got, u.Found().Marks...) {
		if d := v.Left; (d > 0) != kept || d < 0 || d > m.Keep {
			s.Errorf("%s of %s is kept for %v more, of %v", m.ID, m.Consumer, d, m.Keep)
		}
	}
	s.rollback(u)
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// keepReservation checks that a key can be reserved and finished again after its Keep, and that the second
// answer is stored.
func (s *suite[TTx]) keepReservation() {
	m := scoped("a", day)
	s.answered(m)
	again := reserving(m, "one", time.Hour)
	again.Keep, again.Fingerprint = day, 2
	if got := s.reserve(again); got.Outcome != store.Done {
		s.Fatalf("before its time is over: %+v", got)
	}
	s.db.Age(s, 25*time.Hour)
	if got := s.reserve(again); got != (store.Reserved{}) {
		s.Fatalf("after its time: %+v", got)
	}
	m.Result, m.Fingerprint = "second", 2
	s.apply(store.Effect{Reservation: &again, Mark: &m})
	s.verdict(m, store.Verdict{Outcome: store.Done, Fingerprint: 2, Code: 201, Result: "second"})
	s.wantCounts(0, 1, 0)
}

// keepRivals checks that one of many concurrent callers gets a key after its Keep. The other callers wait for
// this caller and find its answer.
func (s *suite[TTx]) keepRivals() {
	const many = 6
	m := scoped("a", day)
	s.answered(m)
	s.db.Age(s, 25*time.Hour)
	m.Result = "second"
	type outcome struct {
		found store.Verdict
		err   error
	}
	got := make(chan outcome, many)
	for range many {
		go func() {
			d := s.db.Driver(s)
			for { // a rival that commits meanwhile may make it busy
				u, err := d.Begin(s.Context(), intake(m))
				if errors.Is(err, store.ErrBusy) {
					continue
				}
				if err != nil {
					got <- outcome{err: err}
					return
				}
				v := u.Found().Marks[0]
				if v.Outcome == store.Fresh {
					err = u.Commit(s.Context(), store.Effect{Answer: &m, Rows: rows(message("a", 1)).Rows})
				} else {
					_, err = u.Rollback(s.Context())
				}
				got <- outcome{v, err}
				return
			}
		}()
	}
	fresh := 0
	for range many {
		o := <-got
		s.ok(o.err, "a rival")
		if o.found.Outcome == store.Fresh {
			fresh++
		} else if o.found.Result != "second" {
			s.Errorf("a rival found %+v", o.found)
		}
	}
	if fresh != 1 {
		s.Errorf("%d did the work", fresh)
	}
	s.wantCounts(1, 1, 0)
}

// keepRolledBack checks that an expired mark is still expired after its replacement was rolled back.
func (s *suite[TTx]) keepRolledBack() {
	m := scoped("a", day)
	s.answered(m)
	s.db.Age(s, 25*time.Hour)
	for range 2 {
		u := s.begin(s.d, intake(m))
		s.found(u, store.Fresh)
		s.rollback(u)
		s.seen(m, store.Fresh)
	}
	s.wantCounts(0, 1, 0)
	m.Outcome, m.Reason = store.Rejected, "no"
	u := s.begin(s.d, intake(m))
	s.found(u, store.Fresh)
	stored, err := u.Rollback(s.Context(), store.Effect{Mark: &m})
	s.ok(err, "refuse")
	if len(stored) != 1 || !stored[0] {
		s.Errorf("a refusal where the time was over: %v", stored)
	}
	s.seen(m, store.Rejected)
}

// keepGuard checks that an effect with a mark is stored only after the Keep of the earlier mark.
func (s *suite[TTx]) keepGuard() {
	m := scoped("a", day)
	s.answered(m)
	s.applied([]bool{false}, store.Effect{Mark: &m, Rows: rows(message("a", 1)).Rows})
	s.db.Age(s, 25*time.Hour)
	plain := m
	plain.Keep = 0
	s.applied([]bool{false}, store.Effect{Mark: &plain})
	m.Result = "second"
	s.apply(store.Effect{Mark: &m})
	s.applied([]bool{false}, store.Effect{Mark: &m})
	s.verdict(m, store.Verdict{Outcome: store.Done, Fingerprint: 1, Code: 201, Result: "second"})
}

// keepTimed checks that an ID with a timestamp is known while its mark exists, is too old after that, and is
// never fresh.
func (s *suite[TTx]) keepTimed() {
	m := scoped("a", day)
	m.ID = aged(0).ID
	s.answered(m)
	s.db.Age(s, 3*day)
	s.seen(m, store.Done)
	u := s.begin(s.d, intake(m))
	s.found(u, store.Done)
	if d := u.Found().Marks[0].Left; d >= 0 {
		s.Errorf("its time is over, and %v are left", d)
	}
	s.rollback(u)
	old := scoped("a", day)
	old.ID = aged(tooOld).ID
	s.answered(old)
	s.db.Age(s, 3*day)
	s.waitUntil("both go", func() bool {
		s.maintain()
		return s.db.Count(s).Marks == 0
	})
	if got := s.reserve(reserving(old, "one", time.Hour)); got.Outcome != store.TooOld {
		s.Errorf("a reservation of a key of that time: %+v", got)
	}
	u = s.begin(s.d, intake(old))
	s.found(u, store.TooOld)
	s.rollback(u)
	s.applied([]bool{false}, store.Effect{Mark: &old})
}

// keepLonger checks that a Keep longer than the general retention applies.
func (s *suite[TTx]) keepLonger() {
	m := scoped("a", 60*day)
	s.answered(m)
	s.db.Age(s, 59*day)
	s.maintain()
	s.seen(m, store.Done)
	s.db.Age(s, 2*day)
	s.seen(m, store.Fresh)
	s.waitUntil("it goes", func() bool {
		s.maintain()
		return s.db.Count(s).Marks == 0
	})
}

// parked returns the n-th message about key, parked after one failure.
func parked(key string, n int) store.Parked {
	m := message(key, n)
	m.Source, m.Subject = "/orders", fmt.Sprint(n)
	return store.Parked{Consumer: consumer, Identity: store.Identity{Source: m.Source, ID: m.ID}, Message: m,
		Attempts: 1}
}
