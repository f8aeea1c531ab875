package storetest

import (
	"errors"
	"time"

	"github.com/skald-go/skald/store"
)

func followTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"Follows":           (*suite[TTx]).followFollows,
		"Repeat":            (*suite[TTx]).followRepeat,
		"Behind":            (*suite[TTx]).followBehind,
		"Rival":             (*suite[TTx]).followRival,
		"NothingThatFailed": (*suite[TTx]).followNothingThatFailed,
		"Isolation":         (*suite[TTx]).followIsolation,
		"Timeless":          (*suite[TTx]).followTimeless,
	}
}

// arrival returns the mark of a message of key from the broker.
func arrival(key string) store.Mark {
	m := mark()
	m.KeyOrder, m.Key = store.Arriving, []byte(key)
	return m
}

// beginFollowing begins a unit after one with the same kind of intake, because CommitThen begins only units
// whose statements the connection has prepared.
func (s *suite[TTx]) beginFollowing() store.Unit[TTx] {
	s.Helper()
	return s.followingWith(intake(arrival("warm")))
}

// followingWith begins a unit as following does, with the given intake.
func (s *suite[TTx]) followingWith(in store.Intake) store.Unit[TTx] {
	s.Helper()
	u := s.begin(s.d, in)
	if !u.Found().Follows {
		s.rollback(u)
		s.Skip("no unit of this store follows another")
	}
	s.rollback(u)
	return s.begin(s.d, intake(arrival("first")))
}

// commitInto commits u. It fails the test unless the commit begins a unit with nextIntake.
func (s *suite[TTx]) commitInto(u store.Unit[TTx], nextIntake store.Intake,
	es ...store.Effect) store.Unit[TTx] {
	s.Helper()
	then, err := u.CommitThen(s.Context(), nextIntake, es...)
	s.ok(err, "commit, then begin")
	if then == nil {
		s.Fatal("no unit was begun")
	}
	return then
}

func (s *suite[TTx]) followFollows() {
	u := s.beginFollowing()
	for _, k := range []string{"1", "2", "3"} {
		s.put(u.Tx(), k, "v")
		s.write(u.Tx(), message(k, 1))
		ended := u
		next := arrival(k)
		u = s.commitInto(u, intake(next), rows(message(k, 2)))
		s.found(u, store.Fresh)
		s.wantUser(k, "v")
		s.seen(next, store.Fresh)
		if err := s.d.Write(s.Context(), ended.Tx(), rows(message("x", 1))); err == nil {
			s.Fatal("a transaction that has ended takes rows")
		}
		if err := ended.Commit(s.Context()); err == nil {
			s.Fatal("a unit commits twice")
		}
	}
	s.wantCounts(6, 3, 0)
	s.put(u.Tx(), "last", "v")
	s.rollback(u)
	s.wantUser("last", "")
	s.wantCounts(6, 3, 0)
}

// followRepeat checks that a unit begun by CommitThen finds existing marks.
func (s *suite[TTx]) followRepeat() {
	done := arrival("k")
	u := s.begin(s.d, intake(done))
	s.commit(u)
	u = s.commitInto(s.beginFollowing(), intake(done))
	s.found(u, store.Done)
	stored, err := u.Rollback(s.Context(), rows(message("again", 1)))
	s.ok(err, "roll back")
	if len(stored) != 1 || !stored[0] {
		s.Fatalf("the result of a repeat: %v", stored)
	}
	s.wantCounts(1, 2, 0)
}

// followBehind checks that a message after a parked message of its key gets no mark, and can be parked in
// that unit.
func (s *suite[TTx]) followBehind() {
	first := parked("k", 1)
	s.apply(keeping(first)...)
	second := parked("k", 2)
	m := store.Mark{Consumer: consumer, Identity: second.Identity, Outcome: store.Done,
		KeyOrder: store.Arriving,
		Key:      second.Message.Key}
	u := s.commitInto(s.beginFollowing(), intake(m))
	s.found(u, store.Behind)
	if err := u.Commit(s.Context()); !errors.Is(err, store.ErrLost) {
		s.Fatalf("a message that is to wait is committed: %v", err)
	}
	u = s.commitInto(s.beginFollowing(), intake(m))
	stored, err := u.Rollback(s.Context(), keeping(second)...)
	s.ok(err, "roll back")
	if !stored[0] {
		s.Fatal("it is not kept")
	}
	u = s.commitInto(s.beginFollowing(), intake(m))
	s.found(u, store.Waiting)
	s.rollback(u)
	claimed := m
	claimed.Identity, claimed.Key, claimed.KeyOrder, claimed.Attempts, claimed.Held = first.Identity,
		first.Message.Key, store.Retrying, first.Attempts, true
	u = s.commitInto(s.followingWith(intake(claimed)), intake(claimed))
	s.found(u, store.Fresh)
	s.rollback(u)
	self := store.Mark{Consumer: consumer, Identity: first.Identity, Outcome: store.Done,
		KeyOrder: store.Arriving,
		Key:      first.Message.Key}
	u = s.commitInto(s.beginFollowing(), intake(self))
	s.found(u, store.Waiting)
	s.rollback(u)
}

// followRival checks that a commit does not wait for a rival of the next unit.
func (s *suite[TTx]) followRival() {
	u := s.beginFollowing()
	holder := s.begin(s.db.Driver(s), intake(arrival("k")))
	s.put(u.Tx(), "k", "v")
	began := time.Now()
	then, err := u.CommitThen(s.Context(), intake(arrival("k")))
	s.ok(err, "commit")
	if then != nil || time.Since(began) > patience/2 {
		s.Fatalf("it follows (%v) after %v, though a rival has its key", then != nil, time.Since(began))
	}
	s.wantUser("k", "v")
	s.rollback(holder)
	v := s.begin(s.d, intake(arrival("k")))
	s.found(v, store.Fresh)
	s.rollback(v)
}

func (s *suite[TTx]) followNothingThatFailed() {
	done, next := mark(), arrival("k")
	s.apply(store.Effect{Mark: &done})
	u := s.beginFollowing()
	s.put(u.Tx(), "k", "v")
	then, err := u.CommitThen(s.Context(), intake(next), store.Effect{Mark: &done})
	s.wantError(err, store.ErrLost, "commit with a lost guard")
	if then != nil {
		s.Fatal("a unit was begun after a failed commit")
	}
	s.wantUser("k", "")
	other := s.begin(s.db.Driver(s), intake(next))
	s.found(other, store.Fresh)
	s.commit(other)
}

// followIsolation checks that the commit also succeeds if a driver cannot begin a unit with a higher
// isolation.
func (s *suite[TTx]) followIsolation() {
	next := intake(arrival("k"))
	next.Isolation = store.Serializable
	u := s.beginFollowing()
	s.put(u.Tx(), "k", "v")
	then, err := u.CommitThen(s.Context(), next)
	s.ok(err, "commit")
	s.wantUser("k", "v")
	if then != nil {
		s.found(then, store.Fresh)
		s.rollback(then)
	}
}

func (s *suite[TTx]) followTimeless() {
	m := arrival("k")
	m.ID = "order 7"
	s.commit(s.begin(s.d, intake(m)))
	u := s.commitInto(s.beginFollowing(), intake(m))
	s.found(u, store.Done)
	s.rollback(u)
	m.ID = "order 8"
	u = s.commitInto(s.beginFollowing(), intake(m))
	s.found(u, store.Fresh)
	s.commit(u)
	s.seen(m, store.Done)
}
