package storetest

import (
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

func alongTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"Read":    (*suite[TTx]).alongRead,
		"Counted": (*suite[TTx]).alongCounted,
		"Ends":    (*suite[TTx]).alongEnds,
		"Bounds":  (*suite[TTx]).alongBounds,
		"Bytes":   (*suite[TTx]).alongBytes,
		"Taken":   (*suite[TTx]).alongTaken,
		"Stale":   (*suite[TTx]).alongStale,
		"Done":    (*suite[TTx]).alongDone,
	}
}

// portion claims messages. It fails the test unless the claimed and prefetched messages have these numbers,
// ordered by place.
func (s *suite[TTx]) portion(most store.ClaimSize, lease time.Duration, want ...string) []store.Parked {
	s.Helper()
	got, err := s.d.Claim(s.Context(), store.ClaimRequest{Consumer: consumer, Session: "life",
		ClaimSize: most,
		Lease:     lease, Not: []store.Kind{{Topic: "left", Type: "left"}}})
	s.ok(err, "claim")
	var have []string
	for _, p := range got.Parked {
		have = append(have, p.Message.Subject)
	}
	if !slices.Equal(have, want) {
		s.Fatalf("claimed are %v, want %v", have, want)
	}
	return got.Parked
}

// wantClaims fails the test unless the messages of a key have these numbers of claims, in order.
func (s *suite[TTx]) wantClaims(key string, want ...int) {
	s.Helper()
	var have []int
	for _, p := range s.kept(store.ParkedQuery{Key: []byte(key)}) {
		have = append(have, p.Claims)
	}
	if !slices.Equal(have, want) {
		s.Errorf("the claims of %s are %v, want %v", key, have, want)
	}
}

func (s *suite[TTx]) alongRead() {
	s.apply(keeping(parked("k", 1), parked("l", 2), parked("k", 3), parked("", 4), parked("k", 5),
		parked("k", 6), parked("", 7))...)
	got := s.portion(store.ClaimSize{Keys: 9, Prefetch: 2, PrefetchAll: 9}, time.Hour, "1", "2", "3",
		"4", "5", "7")
	for i, waits := range []bool{false, false, true, false, true, false} {
		if got[i].Waiting != waits || waits != (got[i].Claims == 0) || waits != (got[i].Session == "") {
			s.Errorf("claimed %+v", got[i])
		}
	}
	s.wantClaims("k", 1, 0, 0, 0)
	// messages after the first are in progress with it
	s.portion(store.ClaimSize{Keys: 9, Prefetch: 2, PrefetchAll: 9}, time.Hour)
}

// alongCounted checks that a claim without an answer counts for prefetched messages, too. From then on they
// are claimed alone.
func (s *suite[TTx]) alongCounted() {
	ps := []store.Parked{parked("k", 1), parked("k", 2), parked("k", 3), parked("k", 4)}
	s.apply(keeping(ps...)...)
	most := store.ClaimSize{Keys: 9, Prefetch: 2, PrefetchAll: 9}
	s.portion(most, 0, "1", "2", "3")
	s.wantClaims("k", 1, 0, 0, 0)
	s.portion(most, 0, "1")
	s.wantClaims("k", 2, 1, 1, 0)
	s.portion(most, 0, "1")
	s.wantClaims("k", 3, 1, 1, 0)
	s.apply(freed(ps[0], &ps[0].Attempts))
	s.portion(most, 0, "2")
	s.wantClaims("k", 2, 1, 0)
	s.apply(freed(ps[1], &ps[1].Attempts))
	s.apply(parkAgain(ps[2], func(p *store.Parked) { p.Claims = 0 })) // an answer
	s.portion(most, 0, "3", "4")
	s.apply(parkAgain(ps[2], func(p *store.Parked) { p.Claims = 0 }))
	s.portion(store.ClaimSize{Keys: 9}, 0, "3")
	s.portion(store.ClaimSize{Keys: 9}, 0, "3")
	s.wantClaims("k", 2, 0) // it was claimed alone
}

// alongEnds checks that a message which must be claimed alone is not prefetched, and neither is any message
// after it. Nothing is prefetched after a message that has a call or may have ended its process.
func (s *suite[TTx]) alongEnds() {
	change := func(key string, n int, change func(*store.Parked)) store.Parked {
		p := parked(key, n)
		change(&p)
		return p
	}
	dead := func(p *store.Parked) { p.Dead = &store.Death{BlocksKey: true} }
	loose := func(p *store.Parked) { p.Dead = &store.Death{} }
	call := func(p *store.Parked) { p.Call = &store.Call{Key: "charge", Request: "1"} }
	kills := func(p *store.Parked) { p.CrashCount = 1 }
	claims := func(p *store.Parked) { p.Claims = 1 }
	left := func(p *store.Parked) { p.Message.Topic, p.Message.Type = "left", "left" }
	n := 0
	var want []string
	for _, c := range []struct {
		key        string
		first, mid func(*store.Parked)
		want       []int
	}{
		{"a", nil, dead, []int{1}}, {"b", nil, loose, []int{1, 3}}, {"c", nil, call, []int{1}},
		{"d", nil, kills, []int{1}},
		{"e", nil, claims, []int{1}}, {"f", nil, left, []int{1}}, {"g", call, nil, []int{1}},
		{"h", kills, nil, []int{1}},
		{"i", claims, nil, []int{1}}, {"j", left, nil, nil}, {"k", nil, nil, []int{1, 2, 3}},
	} {
		for i, how := range []func(*store.Parked){c.first, c.mid, nil} {
			n++
			if how == nil {
				how = func(*store.Parked) {}
			}
			p := change(c.key, n, how)
			s.apply(keeping(p)...)
			if slices.Contains(c.want, i+1) {
				want = append(want, p.Message.Subject)
			}
		}
	}
	s.portion(store.ClaimSize{Keys: 99, Prefetch: 9, PrefetchAll: 99}, time.Hour, want...)
}

func (s *suite[TTx]) alongBounds() {
	n := 0
	for range 3 {
		for _, key := range []string{"k", "l", "m"} {
			n++
			s.apply(keeping(parked(key, n))...)
		}
	}
	claim := func(most store.ClaimSize, first, along int) {
		s.Helper()
		got, err := s.d.Claim(s.Context(), store.ClaimRequest{Consumer: consumer, Session: "life",
			ClaimSize: most,
			Lease:     time.Hour})
		s.ok(err, "claim")
		for _, p := range got.Parked {
			if p.Waiting {
				along--
			} else {
				first--
			}
		}
		if first != 0 || along != 0 {
			s.Errorf("of %+v %d and %d are missing", most, first, along)
		}
		if (got.Next != 0) != (most.Keys > 3) {
			s.Errorf("of %+v the next is due in %v", most, got.Next)
		}
		for _, p := range s.kept(store.ParkedQuery{}) {
			s.apply(parkAgain(p, func(p *store.Parked) { p.Claims, p.Due = 0, 0 }))
		}
	}
	claim(store.ClaimSize{Keys: 2, Prefetch: 1, PrefetchAll: 9}, 2, 2)
	claim(store.ClaimSize{Keys: 3, Prefetch: 9, PrefetchAll: 9}, 3, 6)
	claim(store.ClaimSize{Keys: 4, Prefetch: 9, PrefetchAll: 5}, 3, 5)
	claim(store.ClaimSize{Keys: 4, Prefetch: 1, PrefetchAll: 2}, 3, 2)
	claim(store.ClaimSize{Keys: 4, Prefetch: 0, PrefetchAll: 9}, 3, 0)
	claim(store.ClaimSize{Keys: 4, Prefetch: 9, PrefetchAll: 0}, 3, 0)
}

// alongTaken checks that a prefetched message may be taken in one transaction with the first message of its
// key and all messages between them. The next message is then due.
func (s *suite[TTx]) alongTaken() {
	a, b, c, d, other := parked("k", 1), parked("k", 2), parked("k", 3), parked("k", 4), parked("l", 5)
	b.Attempts = 3
	s.apply(keeping(a, b, c, d, other)...)
	s.portion(store.ClaimSize{Keys: 9, Prefetch: 2, PrefetchAll: 9}, time.Hour, "1", "2", "3", "5")
	u := s.begin(s.d, intake(retrying(a), retrying(other), retrying(b), retrying(c)))
	s.found(u, store.Fresh, store.Fresh, store.Fresh, store.Fresh)
	s.rollback(u)
	u = s.begin(s.d, intake(retrying(a), retrying(b), retrying(other), retrying(c)))
	s.found(u, store.Fresh, store.Fresh, store.Fresh, store.Fresh)
	s.put(u.Tx(), "effect", "1")
	s.readPlaces(&a, &b, &c, &other)
	s.commit(u, freed(a, &a.Attempts), freed(c, &c.Attempts), freed(other, &other.Attempts),
		freed(b, &b.Attempts))
	s.wantUser("effect", "1")
	for _, p := range []store.Parked{a, b, c, other} {
		s.wantOutcome(retrying(p), store.Done)
	}
	s.wantClaims("k", 0)
	s.portion(store.ClaimSize{Keys: 9, Prefetch: 2, PrefetchAll: 9}, time.Hour, "4")
}

// alongStale checks that a prefetched message may not be taken without the messages before it, or after a
// message that may not be taken.
func (s *suite[TTx]) alongStale() {
	a, b, c, hold, behind := parked("k", 1), parked("k", 2), parked("k", 3), parked("h", 4), parked("h", 5)
	hold.Dead = &store.Death{BlocksKey: true}
	s.apply(keeping(a, b, c, hold, behind)...)
	other := b
	other.Attempts = 7
	find := func(want []store.Outcome, ms ...store.Mark) {
		s.Helper()
		u := s.begin(s.d, intake(ms...))
		s.found(u, want...)
		s.rollback(u)
	}
	find([]store.Outcome{store.Fresh, store.Stale}, retrying(a), retrying(c))
	find([]store.Outcome{store.Stale, store.Stale}, retrying(b), retrying(a))
	find([]store.Outcome{store.Stale, store.Stale}, retrying(b), retrying(c))
	find([]store.Outcome{store.Fresh, store.Stale, store.Stale}, retrying(a), retrying(other), retrying(c))
	find([]store.Outcome{store.Fresh, store.Stale, store.Stale}, retrying(a), retrying(parked("k", 9)),
		retrying(b))
	find([]store.Outcome{store.Fresh, store.Fresh, store.Fresh, store.Stale}, retrying(a), retrying(b),
		retrying(c), retrying(parked("k", 9)))
	find([]store.Outcome{store.Stale, store.Stale}, retrying(hold), retrying(behind))
	u := s.begin(s.d, intake(retrying(a), retrying(c)))
	s.put(u.Tx(), "effect", "1")
	s.commit(u, freed(a, &a.Attempts))
	s.wantOutcome(retrying(c), store.Stale)
	s.seen(retrying(c), store.Fresh)
	s.claim(0, "2")
}

// alongDone checks a message that already has a mark. Other messages of its key can still be taken, and the
// message becomes due after them.
func (s *suite[TTx]) alongDone() {
	a, b, c, d := parked("k", 1), parked("k", 2), parked("k", 3), parked("k", 4)
	s.apply(keeping(a, b, c, d)...)
	m := retrying(b)
	m.KeyOrder = store.Anytime
	s.apply(store.Effect{Mark: &m})
	u := s.begin(s.d, intake(retrying(a), retrying(b), retrying(c)))
	s.found(u, store.Fresh, store.Done, store.Fresh)
	s.readPlaces(&a, &c)
	s.commit(u, freed(a, &a.Attempts), freed(c, &c.Attempts))
	s.claim(0, "2")
	s.wantOutcome(retrying(b), store.Done)
	s.apply(freed(b, &b.Attempts))
	s.claim(0, "4")
}
