package storetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/skald-go/skald/store"
)

func sagaHoldTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"Line":   (*suite[TTx]).holdLine,
		"Rivals": (*suite[TTx]).holdRivals,
		"Locked": (*suite[TTx]).holdLocked,
		"Undone": (*suite[TTx]).holdUndone,
	}
}

func accounts(keys ...string) (out []store.Lock) {
	for _, key := range keys {
		out = append(out, store.Lock{Space: "account", Key: key})
	}
	return out
}

// hold puts a saga in queues in its own transaction.
func (s *suite[TTx]) hold(m store.Saga, keys ...string) (first bool) {
	s.Helper()
	tx := s.db.Begin(s)
	first, err := s.d.HoldEntities(s.Context(), tx,
		store.EntityHold{Holder: m.ID, Saga: refOf(m), Entities: accounts(keys...)})
	s.ok(err, "hold %q for %s", keys, m.Key)
	s.ok(s.db.Commit(tx), "commit that %s holds", m.Key)
	return first
}

func (s *suite[TTx]) queued(holder string, stands, first bool) {
	s.Helper()
	tx := s.db.Begin(s)
	is, leads, err := s.d.QueueState(s.Context(), tx, holder)
	if s.ok(err, "look in line"); is != stands || leads != first {
		s.Errorf("%s is in line: %v, first: %v", holder, is, leads)
	}
	s.ok(s.db.Rollback(tx), "roll back")
}

func (s *suite[TTx]) giveUp(m store.Saga) {
	s.Helper()
	tx := s.db.Begin(s)
	s.ok(s.d.FreeEntities(s.Context(), tx, m.ID), "free what %s holds", m.Key)
	s.ok(s.db.Commit(tx), "commit that %s is gone", m.Key)
}

// lines fails the test unless q finds these places in queues.
func (s *suite[TTx]) lines(q store.HoldQuery, want ...string) {
	s.Helper()
	hs, err := store.ListHolds(s.Context(), s.d, q)
	s.ok(err, "list holds")
	var got []string
	for _, h := range hs {
		got = append(got, fmt.Sprintf("%s %s: %s after %d, before %d", h.Space, h.Key, h.Saga.Key,
			h.Before, h.Behind))
		if age := time.Since(h.Since); age < -time.Minute || age > time.Hour || h.Saga.Name != "order" {
			s.Errorf("the hold in line is %+v", h)
		}
	}
	if !slices.Equal(got, want) {
		s.Errorf("in line are %q, want %q", got, want)
	}
}

// holdLine checks that the first saga in a queue holds the entity. A saga that leaves wakes only the next
// saga, and the order of places does not change.
func (s *suite[TTx]) holdLine() {
	ms := s.start(sagaOf("a"), sagaOf("b"), sagaOf("c"))
	a, b, c := ms[0], ms[1], ms[2]
	for i, first := range []bool{s.hold(a, "y", "x", "y"), s.hold(b, "x", "z"), s.hold(c, "z"),
		s.hold(a, "x", "y"), s.hold(b, "z", "x")} {
		if want := i == 0 || i == 3; first != want {
			s.Errorf("hold %d is first: %v", i, first)
		}
	}
	s.lines(store.HoldQuery{}, "account x: a after 0, before 1",
		"account x: b after 1, before 0", "account y: a after 0, before 0",
		"account z: b after 0, before 1", "account z: c after 1, before 0")
	s.lines(store.HoldQuery{Holder: b.ID}, "account x: b after 1, before 0",
		"account z: b after 0, before 1")
	s.lines(store.HoldQuery{Entity: &accounts("z")[0], Limit: 1}, "account z: b after 0, before 1")
	s.queued(a.ID, true, true)
	s.queued(b.ID, true, false)
	s.queued("none", false, false)
	d := s.start(sagaOf("d"))[0]
	s.hold(d, "x", "y")
	s.giveUp(d) // it was not first in any line
	if got := s.saga("a"); got.Version != a.Version || got.Session != a.Session {
		s.Errorf("a holds, and was woken by one behind it: %+v", got)
	}
	s.giveUp(a)
	s.queued(a.ID, false, false)
	s.queued(b.ID, true, true)
	s.lines(store.HoldQuery{}, "account x: b after 0, before 0",
		"account z: b after 0, before 1", "account z: c after 1, before 0")
	if got := s.saga("b"); got.Version != b.Version+1 || got.Session != "" ||
		got.Due.After(got.Started.Add(time.Minute)) {
		s.Errorf("b was not woken: %+v", got)
	}
	if got := s.saga("c"); got.Version != c.Version || got.Session != c.Session {
		s.Errorf("c was woken: %+v", got)
	}
	if !s.hold(b, "x", "z") {
		s.Error("b is not first")
	}
	s.giveUp(b)
	s.giveUp(c)
	s.giveUp(c)
	s.lines(store.HoldQuery{})
}

// holdRivals checks that only one of several rivals holds an entity, for any order of entities, and that each
// rival gets its turn.
func (s *suite[TTx]) holdRivals() {
	var ms []store.Saga
	const rivals = 8
	for i := range rivals {
		ms = append(ms, s.start(sagaOf(fmt.Sprint("r", i)))...)
	}
	firsts := make([]bool, rivals)
	var wg sync.WaitGroup
	for i, m := range ms {
		wg.Go(func() {
			keys := []string{"x", "y", "z"}
			if i%2 == 1 {
				slices.Reverse(keys)
			}
			firsts[i] = s.hold(m, keys...)
		})
	}
	wg.Wait()
	for range rivals {
		at := slices.Index(firsts, true)
		if at < 0 || slices.Contains(firsts[at+1:], true) {
			s.Fatalf("first are %v", firsts)
		}
		s.giveUp(ms[at])
		ms, firsts = slices.Delete(ms, at, at+1), slices.Delete(firsts, at, at+1)
		for i, m := range ms {
			firsts[i] = s.hold(m, "z", "y", "x")
		}
	}
	s.lines(store.HoldQuery{})
}

// holdLocked checks that HoldEntities locks the entity and raises its version. A transaction that has locked
// the entity reads its holder, and the queue does not change before the commit of this transaction.
// FreeEntities neither waits for a locked saga nor wakes it.
func (s *suite[TTx]) holdLocked() {
	ms := s.start(sagaOf("a"), sagaOf("b"))
	s.hold(ms[0], "x")
	u := s.begin(s.d, store.Intake{Locks: accounts("x"), Wait: patience})
	if got := u.Found().Locks; !slices.Equal(got, []int64{2}) {
		s.Errorf("the entity has the version %v, want 2", got)
	}
	hs, err := s.d.EntityHolders(s.Context(), u.Tx(), accounts("w", "x")...)
	s.ok(err, "who holds")
	if len(hs) != 1 || hs[0].Key != "x" || hs[0].Holder != ms[0].ID ||
		hs[0].Saga.Key != "a" || hs[0].Before != 0 {
		s.Errorf("holders are %+v", hs)
	}
	s.commit(u)
	s.hold(ms[1], "x")
	tx := s.db.Begin(s)
	s.ok(s.d.FreeEntities(s.Context(), tx, ms[0].ID), "free")
	s.ok(s.db.Rollback(tx), "roll back")
	s.lines(store.HoldQuery{Holder: ms[0].ID}, "account x: a after 0, before 1")
	if got := s.saga("b"); got.Version != ms[1].Version {
		s.Errorf("b was woken by what was rolled back: %+v", got)
	}
}

// holdUndone checks that a hold has no effect after a rollback.
func (s *suite[TTx]) holdUndone() {
	a := s.start(sagaOf("a"))[0]
	tx := s.db.Begin(s)
	first, err := s.d.HoldEntities(s.Context(), tx,
		store.EntityHold{Holder: a.ID, Saga: refOf(a), Entities: accounts("x")})
	s.ok(err, "hold")
	if !first {
		s.Error("it is not first")
	}
	s.ok(s.db.Rollback(tx), "roll back")
	s.lines(store.HoldQuery{})
	if !s.hold(a, "x") {
		s.Error("it is not first")
	}
}
