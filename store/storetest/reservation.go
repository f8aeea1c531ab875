package storetest

import (
	"slices"
	"strconv"
	"time"

	"github.com/skald-go/skald/store"
)

func reservationTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"OneHasIt":  (*suite[TTx]).reservationOneHasIt,
		"Finished":  (*suite[TTx]).reservationFinished,
		"TakenOver": (*suite[TTx]).reservationTakenOver,
		"TooOld":    (*suite[TTx]).reservationTooOld,
		"AtOnce":    (*suite[TTx]).reservationAtOnce,
		"Counted":   (*suite[TTx]).reservationCounted,
	}
}

// reserving returns a reservation of the key of m.
func reserving(m store.Mark, token string, lease time.Duration) store.Reservation {
	return store.Reservation{Consumer: m.Consumer, Identity: m.Identity, Fingerprint: m.Fingerprint,
		Token: token, Lease: lease}
}

func (s *suite[TTx]) reserve(r store.Reservation) store.Reserved {
	s.Helper()
	out, err := s.d.Reserve(s.Context(), r)
	s.ok(err, "reserve")
	return out
}

func (s *suite[TTx]) reservationOneHasIt() {
	for _, m := range identities()[:3] {
		m.Fingerprint = 7
		one := reserving(m, "one", time.Hour)
		if got := s.reserve(one); got != (store.Reserved{}) {
			s.Fatalf("a fresh key: %+v", got)
		}
		if got := s.reserve(one); got != (store.Reserved{}) {
			s.Fatalf("the same reservation again: %+v", got)
		}
		got := s.reserve(reserving(m, "two", time.Hour))
		if left := got.Left; left <= 0 || left > time.Hour || !got.Rival || got.Fingerprint != 7 ||
			got.Outcome != store.Fresh {
			s.Fatalf("a key that a rival has: %+v", got)
		}
		two := reserving(m, "two", 0)
		s.applied([]bool{false}, store.Effect{Reservation: &two, Rows: rows(message("a", 1)).Rows})
		other := m
		other.Source = "/tenant-2"
		if got := s.reserve(reserving(other, "three", time.Hour)); got.Rival {
			s.Errorf("the same key of another source: %+v", got)
		}
		s.apply(store.Effect{Reservation: &one})
		if got := s.reserve(two); got.Rival {
			s.Errorf("a key that was given back: %+v", got)
		}
	}
	s.wantCounts(0, 0, 0)
}

func (s *suite[TTx]) reservationFinished() {
	m := mark()
	m.Fingerprint = 7
	one := reserving(m, "one", time.Hour)
	s.reserve(one)
	m.Code, m.Result, m.Headers = 201, "body", "{}"
	s.apply(store.Effect{Reservation: &one, Mark: &m, Rows: rows(message("a", 1)).Rows})
	want := store.Verdict{Outcome: store.Done, Fingerprint: 7, Code: 201, Result: "body", Headers: "{}"}
	if got := s.reserve(reserving(m, "two", time.Hour)); got != (store.Reserved{Verdict: want}) {
		s.Errorf("a finished key: %+v", got)
	}
	s.applied([]bool{false}, store.Effect{Reservation: &one, Mark: &m})
	s.verdict(m, want)
	s.wantCounts(1, 1, 0)
}

// reservationTakenOver checks that another caller gets the key after the lease, and that the first caller can
// then change nothing.
func (s *suite[TTx]) reservationTakenOver() {
	m := mark()
	one, two := reserving(m, "one", 0), reserving(m, "two", time.Hour)
	s.reserve(one)
	s.waitUntil("the lease ends", func() bool { return !s.reserve(two).Rival })
	late := m
	late.Result = "late"
	s.applied([]bool{false}, store.Effect{Reservation: &one, Mark: &late})
	m.Result = "second"
	s.apply(store.Effect{Reservation: &two, Mark: &m})
	s.applied([]bool{false}, store.Effect{Reservation: &one, Mark: &late})
	s.verdict(m, store.Verdict{Outcome: store.Done, Result: "second"})
}

func (s *suite[TTx]) reservationTooOld() {
	old := aged(40 * day)
	s.apply(store.Effect{Mark: &old})
	s.db.Age(s, 40*day)
	_, err := s.d.Maintain(s.Context(), store.Maintain{})
	s.ok(err, "maintain")
	if got := s.reserve(reserving(old, "one", time.Hour)); got.Outcome != store.TooOld || got.Rival {
		s.Errorf("a key of a time whose marks are deleted: %+v", got)
	}
	timeless := old
	timeless.ID = "order-7"
	if got := s.reserve(reserving(timeless, "one", time.Hour)); got != (store.Reserved{}) {
		s.Errorf("a key without a time: %+v", got)
	}
}

// reservationAtOnce checks that one of many concurrent callers gets the key.
func (s *suite[TTx]) reservationAtOnce() {
	const many = 8
	m := mark()
	got := make(chan bool, many)
	for i := range many {
		go func() {
			out, err := s.d.Reserve(s.Context(), reserving(m, strconv.Itoa(i), time.Hour))
			got <- err == nil && !out.Rival
		}()
	}
	has := 0
	for range many {
		if <-got {
			has++
		}
	}
	if has != 1 {
		s.Errorf("%d have the key", has)
	}
}

// reservationCounted checks that reservations are counted, including the number of those with an unknown
// outcome.
func (s *suite[TTx]) reservationCounted() {
	m, other := mark(), mark()
	m.Consumer, other.Consumer = "http:b", "http:a"
	one := reserving(m, "one", time.Hour)
	s.reserve(one)
	gone := m
	gone.ID = "crashed"
	s.reserve(reserving(gone, "two", 0))
	s.reserve(reserving(other, "three", time.Hour))
	read := func() []store.ReservedCounts {
		b, err := store.ReadBacklog(s.Context(), s.d)
		s.ok(err, "read backlog")
		return b.Reserved
	}
	want := []store.ReservedCounts{{Consumer: "http:a", Held: 1}, {Consumer: "http:b", Held: 1, Expired: 1}}
	s.waitUntil("the lease ends", func() bool { return slices.Equal(read(), want) })
	s.apply(store.Effect{Reservation: &one})
	if got := read(); !slices.Equal(got,
		[]store.ReservedCounts{{Consumer: "http:a", Held: 1}, {Consumer: "http:b", Expired: 1}}) {
		s.Errorf("once one is given back: %+v", got)
	}
}
