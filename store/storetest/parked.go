package storetest

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

func parkedTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"ByteForByte":      (*suite[TTx]).parkedByteForByte,
		"Failures":         (*suite[TTx]).parkedFailures,
		"Verdicts":         (*suite[TTx]).parkedVerdicts,
		"Order":            (*suite[TTx]).parkedOrder,
		"WithoutKey":       (*suite[TTx]).parkedWithoutKey,
		"Guards":           (*suite[TTx]).parkedGuards,
		"Room":             (*suite[TTx]).parkedRoom,
		"Lease":            (*suite[TTx]).parkedLease,
		"ClaimedAs":        (*suite[TTx]).parkedClaimedAs,
		"HandedBack":       (*suite[TTx]).parkedHandedBack,
		"Retrying":         (*suite[TTx]).parkedRetrying,
		"Postponed":        (*suite[TTx]).parkedPostponed,
		"AgeOfACall":       (*suite[TTx]).parkedAgeOfACall,
		"DeathFreesTheKey": (*suite[TTx]).parkedDeathFreesTheKey,
		"DeathHoldsTheKey": (*suite[TTx]).parkedDeathHoldsTheKey,
		"Released":         (*suite[TTx]).parkedReleased,
		"Dropped":          (*suite[TTx]).parkedDropped,
		"Listed":           (*suite[TTx]).parkedListed,
		"KeyInHand":        (*suite[TTx]).parkedKeyInHand,
		"ParkedTooLate":    (*suite[TTx]).parkedTooLate,
		"AllOrNothing":     (*suite[TTx]).parkedAllOrNothing,
		"RepeatAnytime":    (*suite[TTx]).parkedRepeatAnytime,
		"Replaced":         (*suite[TTx]).parkedReplaced,
		"Finished":         (*suite[TTx]).parkedFinished,
		"Marked":           (*suite[TTx]).parkedMarked,
		"Audited":          (*suite[TTx]).parkedAudited,
		"ReleasedIfDead":   (*suite[TTx]).parkedReleasedIfDead,
		"ReleasedOnce":     (*suite[TTx]).parkedReleasedOnce,
		"CallStays":        (*suite[TTx]).parkedCallStays,
		"BehindACall":      (*suite[TTx]).parkedBehindACall,
		"CallOfTheFirst":   (*suite[TTx]).parkedCallOfTheFirst,
		"OldNumbers":       (*suite[TTx]).parkedOldNumbers,
		"BarredDeath":      (*suite[TTx]).parkedBarredDeath,
	}
}

func keeping(ps ...store.Parked) (out []store.Effect) {
	for _, p := range ps {
		out = append(out, store.Effect{Park: &store.Park{Parked: p}})
	}
	return out
}

// parkAgain returns the effect that stores a change to p, as after another attempt.
func parkAgain(p store.Parked, change func(p *store.Parked)) store.Effect {
	was, call := p.Attempts, callKey(p)
	change(&p)
	return store.Effect{Park: &store.Park{Parked: p, Was: &was, WasCall: call}}
}

func callKey(p store.Parked) string {
	if p.Call == nil {
		return ""
	}
	return p.Call.Key
}

func freed(p store.Parked, attempts *int) store.Effect {
	return store.Effect{Finish: &store.Finish{Consumer: p.Consumer, Identity: p.Identity, Attempts: attempts,
		WasCall: callKey(p), Place: p.Place}}
}

func arriving(p store.Parked) store.Mark {
	return store.Mark{Consumer: p.Consumer, Identity: p.Identity, Outcome: store.Done,
		KeyOrder: store.Arriving,
		Key:      p.Message.Key}
}

func retrying(p store.Parked) store.Mark {
	m := arriving(p)
	m.KeyOrder, m.Attempts = store.Retrying, p.Attempts
	return m
}

// wantOutcome fails the test unless an intake of m finds the outcome want.
func (s *suite[TTx]) wantOutcome(m store.Mark, want store.Outcome) {
	s.Helper()
	u := s.begin(s.d, intake(m))
	got := u.Found().Marks[0].Outcome
	s.rollback(u)
	if got != want {
		s.Fatalf("the state of message %s is %v, want %v", m.ID, got, want)
	}
}

// claim claims messages, and fails the test unless the claimed messages have these numbers.
func (s *suite[TTx]) claim(lease time.Duration, want ...string) []store.Parked {
	s.Helper()
	got, err := s.d.Claim(s.Context(), store.ClaimRequest{Consumer: consumer, Session: "life",
		ClaimSize: store.ClaimSize{Keys: 100}, Lease: lease})
	s.ok(err, "claim")
	var have []string
	for _, p := range got.Parked {
		have = append(have, p.Message.Subject)
	}
	slices.Sort(have)
	if !slices.Equal(have, want) {
		s.Fatalf("due are %v, want %v", have, want)
	}
	return got.Parked
}

func (s *suite[TTx]) kept(what store.ParkedQuery) []store.Parked {
	s.Helper()
	got, err := store.ListParked(s.Context(), s.d, what)
	s.ok(err, "list what is kept")
	return got
}

func (s *suite[TTx]) parkedByteForByte() {
	odd := filled()
	odd.Key, odd.Type, odd.Topic, odd.Subject = []byte{0, 0xff, '\\'}, "\xff\x00type", "t\xfe", "s\x00"
	bare := skald.Message{Topic: "orders", Key: []byte{}, Data: []byte{}}
	for i, m := range []skald.Message{filled(), odd, bare, {Topic: "orders"}} {
		p := store.Parked{}
		fill(reflect.ValueOf(&p).Elem(), "")
		p.Consumer, p.Message, p.ID = consumer, m, fmt.Sprint(i)
		p.Due, p.Place, p.Waiting = 0, 0, false
		if i%2 == 0 {
			p.Dead = nil
		}
		before := s.kept(store.ParkedQuery{})
		s.apply(keeping(p)...)
		all := s.kept(store.ParkedQuery{Consumer: consumer})
		if len(all) != len(before)+1 {
			s.Fatalf("%d are kept, before %d", len(all), len(before))
		}
		got := all[len(all)-1]
		if got.Since.IsZero() || got.Place == 0 {
			s.Errorf("no place or time: %+v", got)
		}
		for _, diff := range differences(got.Message, m) {
			s.Error(diff)
		}
		p = asRead(p, got)
		if !reflect.DeepEqual(got, p) {
			s.Errorf("%+v is kept as %+v", p, got)
		}
	}
	// Long and strange texts are cut, not refused.
	p := parked("k", 1)
	p.Last.Why, p.Last.Host = strings.Repeat("ö\x00\xff", 10_000), "\xff"
	p.Dead = &store.Death{Kind: "permanent", Stack: strings.Repeat("ö\xff\x00", 20_000)}
	s.apply(keeping(p)...)
	got := s.kept(store.ParkedQuery{Identity: &p.Identity})
	if len(got) != 1 || len(got[0].Last.Why) > 4<<10 || len(got[0].Dead.Stack) > 16<<10 ||
		len(got[0].Last.Why) < 3<<10 {
		s.Errorf("%d are kept", len(got))
	}
}

// parkedFailures checks that a store keeps the last attempts with their times, errors and hosts. A claim
// returns them, too, and they stay after a release and after a later attempt.
func (s *suite[TTx]) parkedFailures() {
	fail := func(n int, why string) store.Failure {
		return store.Failure{At: time.UnixMicro(int64(n) * 1e6).UTC(), Why: why, Host: fmt.Sprint("host-", n)}
	}
	a := parked("k", 1)
	a.Failures = []store.Failure{fail(1, "one"), fail(2, "zwei ö\xff")}
	s.apply(keeping(a)...)
	is := func(got []store.Parked, want []store.Failure) {
		s.Helper()
		if len(got) != 1 || !reflect.DeepEqual(got[0].Failures, want) {
			s.Errorf("%+v are kept with the failures %+v", got, want)
		}
	}
	is(s.claim(0, "1"), a.Failures)
	for n := 3; n <= store.MaxFailures+2; n++ {
		a.Failures = append(a.Failures, fail(n, "again"))
	}
	s.apply(parkAgain(a, func(p *store.Parked) { p.Attempts = 1 }))
	a.Attempts = 1
	want := a.Failures[2:]
	is(s.kept(store.ParkedQuery{Identity: &a.Identity, Bare: true}), want)
	s.apply(released(a))
	is(s.kept(store.ParkedQuery{Identity: &a.Identity}), want)
	a.Attempts, a.Failures = 0, []store.Failure{fail(1, strings.Repeat("ö", 1000))}
	s.apply(parkAgain(a, func(*store.Parked) {}))
	got := s.kept(store.ParkedQuery{Identity: &a.Identity})
	if len(got) != 1 || len(got[0].Failures) != 1 || got[0].Failures[0].Why != strings.Repeat("ö", 150) {
		s.Errorf("a long error is kept as %+v", got)
	}
}

func (s *suite[TTx]) parkedVerdicts() {
	a, b, other := parked("k", 1), parked("k", 2), parked("l", 3)
	b.Message.Topic = "elsewhere" // a key is the same over all topics
	dead, held, deadBehind := parked("dead", 4), parked("held", 5), parked("held", 6)
	dead.Dead, held.Dead = &store.Death{}, &store.Death{BlocksKey: true}
	s.apply(keeping(a, dead, held)...)
	for _, c := range []struct {
		p    store.Parked
		want store.Outcome
	}{{a, store.Waiting}, {b, store.Behind}, {other, store.Fresh}, {dead, store.Dead},
		{parked("dead", 7), store.Fresh},
		{held, store.Dead}, {deadBehind, store.Behind}} {
		s.wantOutcome(arriving(c.p), c.want)
	}
	m := arriving(b)
	m.Consumer = "another"
	s.wantOutcome(m, store.Fresh)
	m.KeyOrder, m.Consumer = store.Anytime, consumer
	s.wantOutcome(m, store.Fresh)
	// In an effect it is a guard.
	m = arriving(b)
	fresh, anew := arriving(other), arriving(parked("l", 8))
	s.applied([]bool{false, true, true}, store.Effect{Mark: &m}, store.Effect{Mark: &fresh},
		store.Effect{Mark: &anew})
	s.wantOutcome(arriving(other), store.Done)
}

func (s *suite[TTx]) parkedOrder() {
	a, b, c := parked("k", 1), parked("k", 2), parked("k", 3)
	c.Message.Topic = "elsewhere"
	s.apply(keeping(a, b, c, parked("l", 4))...)
	s.claim(0, "1", "4")
	s.apply(freed(a, nil))
	s.claim(0, "2", "4")
	d := parked("k", 5) // at the end of the key, although it is parked after the first is gone
	s.apply(keeping(d)...)
	s.apply(freed(b, nil))
	s.claim(0, "3", "4")
	s.apply(freed(c, nil))
	s.claim(0, "4", "5")
	waits := s.kept(store.ParkedQuery{Key: []byte("k")})
	if len(waits) != 1 || waits[0].Waiting {
		s.Errorf("kept %+v", waits)
	}
}

func (s *suite[TTx]) parkedWithoutKey() {
	a, b := parked("", 1), parked("", 2)
	s.apply(keeping(a, b)...)
	s.claim(0, "1", "2")
	s.wantOutcome(arriving(a), store.Waiting)
	s.wantOutcome(arriving(parked("", 3)), store.Fresh)
	empty := parked("", 4)
	empty.Message.Key = []byte{} // a key like any other
	s.apply(keeping(empty)...)
	other := parked("", 5)
	other.Message.Key = []byte{}
	s.wantOutcome(arriving(other), store.Behind)
	s.wantOutcome(retrying(b), store.Fresh)
}

func (s *suite[TTx]) parkedGuards() {
	a, done := parked("k", 1), parked("l", 2)
	s.commit(s.begin(s.d, intake(arriving(done))))
	s.applied([]bool{false, true, false}, keeping(done, a, a)...)
	timeless := parked("m", 3)
	timeless.ID = "free text"
	s.commit(s.begin(s.d, intake(arriving(timeless))))
	s.applied([]bool{false}, keeping(timeless)...)
	none := parked("k", 4)
	s.applied([]bool{false, false, false}, released(none), freed(none, nil),
		parkAgain(none, func(*store.Parked) {}))
	two := 2
	s.applied([]bool{false}, freed(a, &two))
	a.Attempts = 2
	s.applied([]bool{false}, parkAgain(a, func(*store.Parked) {}))
	a.Attempts = 1
	s.apply(parkAgain(a, func(p *store.Parked) { p.Attempts = 2 }))
	s.apply(freed(a, &two))
	s.wantCounts(0, 2, 0)
	if got := s.kept(store.ParkedQuery{}); len(got) != 0 {
		s.Errorf("kept %+v", got)
	}
}

func (s *suite[TTx]) parkedRoom() {
	keep := func(p store.Parked, rows, bytes int64) store.Effect {
		return store.Effect{Park: &store.Park{Parked: p, MostRows: rows, MostBytes: bytes}}
	}
	ps := []store.Parked{parked("k", 1), parked("k", 2), parked("k", 3), parked("l", 4)}
	for i := range ps {
		ps[i].Message.Data = bytes.Repeat([]byte("x"), 99)
	}
	s.applied([]bool{true, true, false, true}, keep(ps[0], 2, 0), keep(ps[1], 2, 0), keep(ps[2], 2, 0),
		keep(ps[3], 2, 0))
	s.apply(freed(ps[0], nil))
	s.applied([]bool{false, true}, keep(ps[2], 9, 100), keep(ps[2], 9, 101))
	// A message that is parked already needs no room.
	s.apply(parkAgain(ps[1], func(p *store.Parked) { p.Attempts++ }))
	// A dead letter needs no room of its key, and blocks it at its place.
	letter := parked("l", 5)
	letter.Dead = &store.Death{Kind: "key_full", BlocksKey: true}
	s.applied([]bool{false, true, false}, keep(parked("l", 5), 1, 0), keep(letter, 0, 0),
		keep(parked("l", 6), 1, 0))
	s.apply(freed(ps[3], nil))
	s.wantOutcome(arriving(parked("l", 6)), store.Behind)
	s.apply(keep(parked("l", 6), 9, 0), released(letter))
	s.claim(0, "2", "5")
	s.apply(freed(letter, nil))
	s.claim(0, "2", "6")
	var free []store.Effect
	for n := range 5 {
		free = append(free, keep(parked("", 10+n), 1, 1))
	}
	s.apply(free...)
}

func (s *suite[TTx]) parkedLease() {
	later := parked("k", 1)
	later.Due = time.Hour
	s.apply(keeping(later, parked("l", 2), parked("m", 3))...)
	one, err := s.d.Claim(s.Context(), store.ClaimRequest{Consumer: consumer, Session: "life",
		ClaimSize: store.ClaimSize{Keys: 1}, Lease: time.Hour})
	s.ok(err, "claim")
	if len(one.Parked) != 1 || one.Next != 0 {
		s.Fatalf("claimed %+v", one)
	}
	got, err := s.db.Driver(s).Claim(s.Context(), store.ClaimRequest{Consumer: consumer, Session: "life",
		ClaimSize: store.ClaimSize{Keys: 10}, Lease: 30 * time.Minute})
	s.ok(err, "claim")
	if len(got.Parked) != 1 || got.Parked[0].ID == one.Parked[0].ID || got.Next < 25*time.Minute ||
		got.Next > 30*time.Minute {
		s.Fatalf("claimed %+v behind %+v", got, one)
	}
	s.claim(0)
	s.apply(released(later))
	s.claim(0, "1")
	nobody, err := s.d.Claim(s.Context(),
		store.ClaimRequest{Consumer: "another", Session: "life", ClaimSize: store.ClaimSize{Keys: 10},
			Lease: 0})
	s.ok(err, "claim")
	if len(nobody.Parked) != 0 || nobody.Next >= 0 {
		s.Errorf("another consumer has %+v", nobody)
	}
}

func (s *suite[TTx]) parkedRetrying() {
	a, b := parked("k", 1), parked("k", 2)
	s.apply(keeping(a, b)...)
	s.wantOutcome(retrying(b), store.Stale)
	m := retrying(a)
	m.Attempts = 0
	s.wantOutcome(m, store.Stale)
	u := s.begin(s.d, intake(retrying(a)))
	s.found(u, store.Fresh)
	s.put(u.Tx(), "effect", "1")
	s.commit(u, freed(a, &a.Attempts))
	s.wantUser("effect", "1")
	s.wantOutcome(retrying(a), store.Done)
	s.wantOutcome(arriving(a), store.Done)
	s.claim(0, "2")
	// After a claim and an undo it is parked as before.
	u = s.begin(s.d, intake(retrying(b)))
	s.rollback(u)
	s.wantOutcome(retrying(b), store.Fresh)
	s.wantOutcome(retrying(parked("k", 3)), store.Stale)
}

func (s *suite[TTx]) parkedPostponed() {
	a, b := parked("k", 1), parked("k", 2)
	s.apply(keeping(a, b)...)
	u := s.begin(s.d, intake(retrying(a)))
	s.put(u.Tx(), "effect", "1")
	stored, err := u.Rollback(s.Context(), parkAgain(a, func(p *store.Parked) {
		p.Attempts, p.Due, p.Last = 2, time.Hour, store.Failure{At: time.Now(), Why: "again", Host: "h"}
		p.Call = &store.Call{Key: "outside", Request: "{}", Since: time.UnixMicro(1).UTC(),
			Outcome: "{}", Undo: true}
		p.Message = message("other", 9) // the message itself stays unchanged
	}))
	s.ok(err, "postpone")
	if !slices.Equal(stored, []bool{true}) {
		s.Fatalf("stored %v", stored)
	}
	s.wantUser("effect", "")
	s.claim(0)
	got := s.kept(store.ParkedQuery{Identity: &a.Identity})
	if len(got) != 1 || got[0].Attempts != 2 || got[0].Last.Why != "again" || got[0].Message.ID != a.ID ||
		got[0].Due < 50*time.Minute ||
		got[0].Call == nil || got[0].Call.Key != "outside" || got[0].Call.Outcome != "{}" ||
		!got[0].Call.Undo {
		s.Errorf("kept %+v", got)
	}
	s.wantOutcome(retrying(a), store.Stale)
	a.Attempts = 2
	s.wantOutcome(retrying(a), store.Fresh)
}

// parkedKeyInHand checks that a message in progress blocks all others of its key, and no other messages.
func (s *suite[TTx]) parkedKeyInHand() {
	a, b := parked("k", 1), parked("k", 2)
	u := s.begin(s.d, intake(arriving(a)))
	rival := s.db.Driver(s)
	in := intake(arriving(b))
	in.Wait = shortly
	_, err := rival.Begin(s.Context(), in)
	s.wantError(err, store.ErrBusy, "take the next of a key that is in hand")
	if !rival.Outage(err) {
		s.Errorf("%v is a message's fault", err)
	}
	if s.can.Rivals {
		for _, free := range []store.Parked{parked("l", 3), parked("", 4)} {
			s.rollback(s.begin(rival, intake(arriving(free))))
		}
	}
	var found store.Outcome
	in.Wait = patience
	done := meanwhile(func() {
		v, err := rival.Begin(s.Context(), in)
		if err == nil {
			found = v.Found().Marks[0].Outcome
			_, err = v.Rollback(s.Context())
		}
		if err != nil {
			s.Errorf("the rival: %v", err)
		}
	})
	s.wantBlocked(done, "the next of the key")
	stored, err := u.Rollback(s.Context(), keeping(a)...)
	s.ok(err, "park")
	s.comes(done, "the next of the key")
	// Between the two transactions the rival may be first.
	if !stored[0] || found != store.Behind && found != store.Fresh {
		s.Errorf("parked %v, the rival found %v", stored, found)
	}
	s.wantOutcome(arriving(b), store.Behind)
}
