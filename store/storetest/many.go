package storetest

import (
	"slices"
	"sync"
	"time"

	"github.com/skald-go/skald/store"
)

func manyTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"Verdicts":  (*suite[TTx]).manyVerdicts,
		"Kept":      (*suite[TTx]).manyKept,
		"Freed":     (*suite[TTx]).manyFreed,
		"FreedLate": (*suite[TTx]).manyFreedLate,
		"Below":     (*suite[TTx]).manyBelow,
		"Entities":  (*suite[TTx]).manyEntities,
		"Alone":     (*suite[TTx]).manyAlone,
		"NoCircle":  (*suite[TTx]).manyNoCircle,
		"Rival":     (*suite[TTx]).manyRival,
		"Isolation": (*suite[TTx]).manyIsolation,
	}
}

// messagesOfAllKinds returns the marks of messages of all kinds for one intake, and their expected outcomes.
func (s *suite[TTx]) messagesOfAllKinds() (ms []store.Mark, want []store.Outcome) {
	first, second, again, loose := parked("r", 20), parked("q", 21), parked("s", 22), parked("", 23)
	s.apply(keeping(first, parked("q", 19), second, again, loose)...)
	gone := parked("d", 25)
	gone.Dead = &store.Death{}
	s.apply(keeping(gone)...)
	wrong := retrying(again)
	wrong.Attempts = 7
	a, behind, dead, held, after := parked("k", 1), parked("k", 2), parked("d", 3), parked("h", 4),
		parked("h", 5)
	dead.Dead, held.Dead = &store.Death{}, &store.Death{BlocksKey: true}
	s.apply(keeping(a, dead, held)...)
	done, no := arriving(parked("k", 6)), rejected(arriving(parked("", 7)), "no")
	s.apply(store.Effect{Mark: &no})
	anyDone := done
	anyDone.KeyOrder = store.Anytime
	s.apply(store.Effect{Mark: &anyDone})
	free, timeless, odd := arriving(parked("k", 8)), arriving(parked("l", 9)), arriving(parked("", 10))
	free.KeyOrder, timeless.ID, odd.ID = store.Anytime, "free text", "größe \xff"
	timelessBehind, empty := arriving(parked("k", 11)), arriving(parked("", 12))
	timelessBehind.ID, empty.Key = "more text", []byte{}
	for _, c := range []struct {
		m    store.Mark
		want store.Outcome
	}{{arriving(behind), store.Behind}, {arriving(a), store.Waiting},
		{arriving(parked("l", 13)), store.Fresh}, {done, store.Done}, {no, store.Rejected},
		{arriving(dead), store.Dead}, {arriving(parked("d", 14)), store.Fresh}, {arriving(held), store.Dead},
		{arriving(after), store.Behind},
		{retrying(first), store.Fresh}, {retrying(second), store.Stale}, {wrong, store.Stale},
		{retrying(loose), store.Fresh},
		{retrying(parked("r", 24)), store.Stale}, {retrying(gone), store.Stale}, {free, store.Fresh},
		{timeless, store.Fresh}, {odd, store.Fresh}, {timelessBehind, store.Behind}, {empty, store.Fresh}} {
		ms, want = append(ms, c.m), append(want, c.want)
	}
	return ms, want
}

// manyVerdicts checks that many messages in one intake get the same outcomes as each message alone.
func (s *suite[TTx]) manyVerdicts() {
	ms, want := s.messagesOfAllKinds()
	for i, m := range ms {
		s.wantOutcome(m, want[i])
	}
	u := s.begin(s.d, intake(ms...))
	s.found(u, want...)
	if got := u.Found().Marks[4].Reason; got != "no" {
		s.Errorf("the reason is %q", got)
	}
	s.rollback(u)
	for i, m := range ms {
		s.wantOutcome(m, want[i])
	}
}

// manyKept checks that fresh messages are committed together with parked ones, which get no mark.
func (s *suite[TTx]) manyKept() {
	ms, want := s.messagesOfAllKinds()
	u := s.begin(s.d, intake(ms...))
	s.found(u, want...)
	s.put(u.Tx(), "effect", "1")
	s.commit(u, rows(message("a", 1)))
	s.wantUser("effect", "1")
	for i, m := range ms {
		if want[i] == store.Fresh {
			want[i] = store.Done
		}
		s.wantOutcome(m, want[i])
		if want[i] == store.Waiting || want[i] == store.Dead || want[i] == store.Behind ||
			want[i] == store.Stale {
			s.seen(m, store.Fresh)
		}
	}
}

// manyFreed checks that a commit finishes all claimed messages of one transaction. The next message of each
// key becomes due, even if the commit finished several messages of the key.
func (s *suite[TTx]) manyFreed() {
	a, b, loose := parked("k", 1), parked("l", 2), parked("", 3)
	after, last, waits := parked("k", 4), parked("k", 5), parked("l", 6)
	a.Attempts, after.Attempts = 3, 0
	s.apply(keeping(a, b, loose, after, last, waits)...)
	s.readPlaces(&a, &b, &loose, &after, &last, &waits)
	s.claim(time.Hour, "1", "2", "3")
	u := s.begin(s.d, intake(retrying(b), retrying(loose), retrying(a)))
	s.found(u, store.Fresh, store.Fresh, store.Fresh)
	s.put(u.Tx(), "effect", "1")
	s.commit(u, freed(loose, &loose.Attempts), freed(a, &a.Attempts), freed(b, &b.Attempts),
		rows(message("a", 1)))
	s.wantUser("effect", "1")
	for _, p := range []store.Parked{a, b, loose} {
		s.wantOutcome(retrying(p), store.Done)
	}
	s.claim(time.Hour, "4", "6")
	s.commit(s.begin(s.d, intake(mark())), freed(after, &after.Attempts), freed(waits, &waits.Attempts),
		freed(last, &last.Attempts))
	s.claim(time.Hour)
	next := parked("k", 7)
	s.apply(keeping(parked("k", 8), next)...)
	s.claim(0, "8")
}

// manyFreedLate checks that the commit of several messages fails if one of them has changed since its claim.
func (s *suite[TTx]) manyFreedLate() {
	a, b, behind, calling := parked("k", 1), parked("l", 2), parked("k", 3), parked("m", 4)
	calling.Call = &store.Call{Key: "bytes\xff", Request: "{}"}
	s.apply(keeping(a, b, behind, calling)...)
	s.readPlaces(&a, &b, &calling)
	unknown, before, elsewhere, swapped := parked("l", 9), calling, b, b
	unknown.Place, before.Call, elsewhere.Place, swapped.Place = b.Place, nil, b.Place+1000, calling.Place
	other := 7
	for _, late := range []store.Effect{freed(b, &other), freed(parked("l", 9), &a.Attempts),
		freed(unknown, &a.Attempts), freed(before, &before.Attempts),
		freed(elsewhere, &b.Attempts), freed(swapped, &b.Attempts)} {
		u := s.begin(s.d, intake(retrying(a)))
		s.put(u.Tx(), "effect", "1")
		err := u.Commit(s.Context(), freed(a, &a.Attempts), late)
		s.wantError(err, store.ErrLost, "commit")
		s.wantUser("effect", "")
		s.wantOutcome(retrying(a), store.Fresh)
	}
	u := s.begin(s.d, intake(retrying(b)))
	s.wantError(u.Commit(s.Context(), freed(elsewhere, &b.Attempts)), store.ErrLost,
		"free what lies elsewhere")
	u = s.begin(s.d, intake(retrying(a), retrying(b), retrying(calling)))
	s.commit(u, freed(a, &a.Attempts), freed(b, &b.Attempts), freed(calling, &calling.Attempts))
	s.claim(0, "3")
}

// readPlaces sets the field Place of ps.
func (s *suite[TTx]) readPlaces(ps ...*store.Parked) {
	s.Helper()
	for _, p := range ps {
		found, err := store.ListParked(s.Context(), s.d,
			store.ParkedQuery{Consumer: p.Consumer, Identity: &p.Identity, Limit: 1})
		if err != nil || len(found) != 1 || found[0].Place == 0 {
			s.Fatalf("message %s lies at %+v, %v", p.ID, found, err)
		}
		p.Place = found[0].Place
	}
}

// manyBelow checks that messages below the floor are too old, and do not affect the others.
func (s *suite[TTx]) manyBelow() {
	old, newer, other := aged(tooOld), arriving(parked("n", 4)), arriving(parked("l", 3))
	newer.ID, other.ID = recentID(), recentID()
	s.commit(s.begin(s.d, intake(old)))
	s.db.Age(s, 31*day)
	s.waitUntil("the old mark goes", func() bool {
		s.maintain()
		return s.db.Count(s).Marks == 0
	})
	a, b := parked("k", 1), arriving(parked("k", 2))
	s.apply(keeping(a)...)
	b.ID = old.ID
	u := s.begin(s.d, intake(old, newer, other))
	s.found(u, store.TooOld, store.Fresh, store.Fresh)
	s.rollback(u)
	s.wantOutcome(b, store.TooOld)
	u = s.begin(s.d, intake(newer, b))
	s.found(u, store.Fresh, store.TooOld)
	s.commit(u)
	s.seen(newer, store.Done)
	s.seen(old, store.Fresh)
}

// manyEntities checks that the version of an entity of several messages is raised once, and that each of the
// messages gets this version.
func (s *suite[TTx]) manyEntities() {
	s.apply(lockAt("b", 0), lockAt("b", 0))
	in := intake(mark(), mark())
	in.Locks = locking("c", "b", "a", "b", "c").Locks
	in.Locks = append(in.Locks, store.Lock{Space: "stock", Key: "a\x00\xff"})
	u := s.begin(s.d, in)
	if got := u.Found().Locks; !slices.Equal(got, []int64{1, 3, 1, 3, 1, 1}) {
		s.Fatalf("the versions are %v", got)
	}
	s.commit(u, lockAt("b", 3))
	s.rollback(s.lockKeys([]string{"a", "b", "c"}, 2, 4, 2))
}

// manyAlone checks that a unit with a single parked message cannot be committed, so the message gets no
// mark.
func (s *suite[TTx]) manyAlone() {
	a, b := parked("k", 1), parked("k", 2)
	s.apply(keeping(a)...)
	for _, m := range []store.Mark{arriving(a), arriving(b)} {
		_ = s.begin(s.d, intake(m)).Commit(s.Context())
		s.seen(m, store.Fresh)
	}
}

// manyNoCircle checks that intakes of the same messages and entities, in any order, cannot deadlock.
func (s *suite[TTx]) manyNoCircle() {
	if !s.can.Rivals {
		return
	}
	var ms []store.Mark
	for n := range 20 {
		ms = append(ms, arriving(parked(string(rune('a'+n%7)), n)))
	}
	ms[3].ID, ms[11].ID = "free text", "more text"
	in := intake(ms...)
	in.Locks = locking("a", "b", "c", "d", "e").Locks
	var wg sync.WaitGroup
	for turn := range 8 {
		d := s.db.Driver(s)
		wg.Go(func() {
			mine := in
			mine.Marks, mine.Locks = slices.Clone(in.Marks), slices.Clone(in.Locks)
			if turn%2 == 1 {
				slices.Reverse(mine.Marks)
				slices.Reverse(mine.Locks)
			}
			for range 5 {
				u, err := d.Begin(s.Context(), mine)
				if err != nil {
					s.Errorf("begin: %v", err)
					return
				}
				if _, err := u.Rollback(s.Context()); err != nil {
					s.Errorf("roll back: %v", err)
				}
			}
		})
	}
	wg.Wait()
}

// manyRival checks that an intake of many messages waits for a rival that has one of them, and finds the
// outcome.
func (s *suite[TTx]) manyRival() {
	a, b, c := arriving(parked("a", 1)), arriving(parked("b", 2)), arriving(parked("c", 3))
	u := s.begin(s.d, intake(b))
	in := intake(c, b, a)
	in.Wait = shortly
	_, err := s.db.Driver(s).Begin(s.Context(), in)
	s.wantError(err, store.ErrBusy, "begin beside a rival")
	s.commit(u)
	u = s.begin(s.d, intake(c, b, a))
	s.found(u, store.Fresh, store.Done, store.Fresh)
	s.commit(u)
	s.seen(a, store.Done)
}

// manyIsolation checks that a unit with a higher isolation than READ COMMITTED does not overwrite concurrent
// commits. A driver without such a level must return an error.
func (s *suite[TTx]) manyIsolation() {
	for _, level := range []store.Isolation{store.RepeatableRead, store.Serializable} {
		m := mark()
		in := intake(m)
		in.Isolation = level
		u, err := s.d.Begin(s.Context(), in)
		if err != nil {
			s.wantError(err, store.ErrNoIsolation, "a level of isolation")
			if !store.Incurable(err) || s.d.Outage(err) {
				s.Errorf("%v is tried again", err)
			}
			s.seen(m, store.Fresh)
			continue
		}
		if s.can.Rivals {
			rival := s.begin(s.db.Driver(s), intake(mark()))
			s.put(rival.Tx(), "k", "theirs")
			s.commit(rival)
			err := s.db.Put(u.Tx(), "k", "ours")
			if !store.Collided(err) || !s.d.Outage(err) {
				s.Errorf("it writes over a rival's: %v", err)
			}
			s.rollback(u)
			s.wantUser("k", "theirs")
			continue
		}
		s.commit(u)
		s.seen(m, store.Done)
	}
}
