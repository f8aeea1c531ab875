package storetest

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"
	"time"

	"github.com/skald-go/skald/store"
)

func unitTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"CommitsAllAtOnce":        (*suite[TTx]).unitCommitsAllAtOnce,
		"RollsBackAll":            (*suite[TTx]).unitRollsBackAll,
		"RollbackInstead":         (*suite[TTx]).unitRollbackInstead,
		"RollbackInsteadOfItself": (*suite[TTx]).unitRollbackInsteadOfItself,
		"LostMark":                (*suite[TTx]).unitLostMark,
		"LostLock":                (*suite[TTx]).unitLostLock,
		"LostShard":               (*suite[TTx]).unitLostShard,
		"GuardsThatHold":          (*suite[TTx]).unitGuardsThatHold,
		"SwallowedError":          (*suite[TTx]).unitSwallowedError,
		"Lent":                    (*suite[TTx]).unitLent,
		"Return":                  (*suite[TTx]).unitReturn,
		"Undo":                    (*suite[TTx]).unitUndo,
		"Drop":                    (*suite[TTx]).unitDrop,
		"DropKeepsNoConnection":   (*suite[TTx]).unitDropKeepsNoConnection,
		"BegunAnew":               (*suite[TTx]).unitBegunAgain,
		"FewConnections":          (*suite[TTx]).unitFewConnections,
		"Ended":                   (*suite[TTx]).unitEnded,
		"BeginThatFails":          (*suite[TTx]).unitBeginThatFails,
		"BeginCancelled":          (*suite[TTx]).unitBeginCancelled,
		"CommitCancelled":         (*suite[TTx]).unitCommitCancelled,
		"RollbackCancelled":       (*suite[TTx]).unitRollbackCancelled,
		"Idle":                    (*suite[TTx]).unitIdle,
		"Parallel":                (*suite[TTx]).unitParallel,
		"Empty":                   (*suite[TTx]).unitEmpty,
		"OutageIsItsOwn":          (*suite[TTx]).unitOutageIsItsOwn,
		"Probe":                   (*suite[TTx]).unitProbe,
	}
}

func (s *suite[TTx]) unitCommitsAllAtOnce() {
	m, kept, said := mark(), message("a", 1), message("a", 2)
	u := s.begin(s.d, store.Intake{Marks: []store.Mark{m}, Locks: []store.Lock{{Space: "order", Key: "a"}}})
	s.found(u, store.Fresh)
	s.put(u.Tx(), "k", "v")
	s.write(u.Tx(), kept)
	s.wantCounts(0, 0, 0)
	s.wantUser("k", "")
	s.seen(m, store.Fresh)
	s.commit(u, rows(said))
	s.wantCounts(2, 1, 0)
	s.wantUser("k", "v")
	s.seen(m, store.Done)
	s.wantIDs(s.allRows(), kept.ID, said.ID)
}

func (s *suite[TTx]) unitRollsBackAll() {
	m := mark()
	u := s.begin(s.d, store.Intake{Marks: []store.Mark{m}, Locks: []store.Lock{{Space: "order", Key: "a"}}})
	s.put(u.Tx(), "k", "v")
	s.write(u.Tx(), message("a", 1))
	stored, err := u.Rollback(s.Context())
	s.ok(err, "roll back")
	if len(stored) != 0 {
		s.Fatalf("a rollback without effects answers %v", stored)
	}
	s.wantCounts(0, 0, 0)
	s.wantUser("k", "")
	u = s.begin(s.d, intake(m))
	s.found(u, store.Fresh)
	s.rollback(u)
}

func (s *suite[TTx]) unitRollbackInstead() {
	done, fresh, other := mark(), mark(), mark()
	s.apply(store.Effect{Mark: &done})
	u := s.begin(s.d, store.Intake{})
	s.put(u.Tx(), "k", "v")
	s.write(u.Tx(), message("a", 1))
	instead := message("a", 2)
	stored, err := u.Rollback(s.Context(),
		store.Effect{Mark: &fresh, Rows: rows(instead).Rows},
		store.Effect{Mark: &done, Rows: rows(message("a", 3)).Rows},
		store.Effect{Mark: &other})
	s.ok(err, "roll back")
	if want := []bool{true, false, true}; !slices.Equal(stored, want) {
		s.Fatalf("stored %v, want %v", stored, want)
	}
	s.wantCounts(1, 3, 0)
	s.wantUser("k", "")
	s.wantIDs(s.allRows(), instead.ID)
}

// unitRollbackInsteadOfItself checks that the effect of Rollback can store the mark of the unit itself.
func (s *suite[TTx]) unitRollbackInsteadOfItself() {
	m, lock := mark(), store.Lock{Space: "order", Key: "a"}
	u := s.begin(s.d, store.Intake{Marks: []store.Mark{m}, Locks: []store.Lock{lock}})
	lock.Version = u.Found().Locks[0]
	no := rejected(m, "out of stock")
	stored, err := u.Rollback(s.Context(),
		store.Effect{Mark: &no, Locks: []store.Lock{lock}, Rows: rows(message("a", 1)).Rows})
	s.ok(err, "roll back")
	if !slices.Equal(stored, []bool{true}) {
		s.Fatalf("stored %v", stored)
	}
	s.wantCounts(1, 1, 0)
	s.seen(m, store.Rejected)
}

// wantLost fails the test unless a unit stores nothing if its effect loses a guard.
func (s *suite[TTx]) wantLost(e store.Effect) {
	s.Helper()
	before, mine := s.db.Count(s), mark()
	u := s.begin(s.d, store.Intake{Marks: []store.Mark{mine},
		Locks: []store.Lock{{Space: "other", Key: "x"}}})
	s.put(u.Tx(), "lost", "v")
	s.write(u.Tx(), message("a", 1))
	e.Rows = append(e.Rows, message("a", 2))
	good := mark()
	s.wantError(u.Commit(s.Context(), store.Effect{Mark: &good}, e, rows(message("a", 3))), store.ErrLost,
		"commit")
	s.wantUser("lost", "")
	s.wantCounts(before.Rows, before.Marks, before.Aside)
	u = s.begin(s.d, store.Intake{Marks: []store.Mark{mine}, Locks: []store.Lock{{Space: "other", Key: "x"}}})
	s.found(u, store.Fresh)
	if got := u.Found().Locks[0]; got != 1 {
		s.Fatalf("a unit that lost raised a lock to %d", got)
	}
	s.rollback(u)
}

func (s *suite[TTx]) unitLostMark() {
	m := mark()
	s.apply(store.Effect{Mark: &m})
	s.wantLost(store.Effect{Mark: &m})
}

func (s *suite[TTx]) unitLostLock() {
	s.apply(store.Effect{Locks: []store.Lock{{Space: "order", Key: "a"}}})
	s.wantLost(store.Effect{Locks: []store.Lock{{Space: "order", Key: "a", Version: 1}}})
	s.wantLost(store.Effect{Locks: []store.Lock{{Space: "order", Key: "b", Version: 7}}})
}

func (s *suite[TTx]) unitLostShard() {
	l := s.lease(s.d, "one", "1")[0]
	s.wantLost(store.Effect{Shard: &store.Progress{Shard: l.ID, Epoch: l.Epoch, Token: "other"}})
	s.wantLost(store.Effect{Shard: &store.Progress{Shard: l.ID, Epoch: l.Epoch + 1, Token: l.Token}})
	s.wantLost(store.Effect{Shard: &store.Progress{Shard: 5000, Epoch: l.Epoch, Token: l.Token}})
}

func (s *suite[TTx]) unitGuardsThatHold() {
	l := s.lease(s.d, "one", "1")[0]
	s.apply(store.Effect{Locks: []store.Lock{{Space: "order", Key: "a"}}})
	m, inc := mark(), "b1"
	u := s.begin(s.d, locking("a"))
	s.commit(u, store.Effect{
		Mark: &m, Locks: []store.Lock{{Space: "order", Key: "a", Version: 2},
			{Space: "order", Key: "b", Version: 1}},
		Rows:  rows(message("a", 1)).Rows,
		Shard: &store.Progress{Shard: l.ID, Epoch: l.Epoch, Token: l.Token, Incarnation: &inc},
	})
	s.wantCounts(1, 1, 0)
	if got := s.lease(s.d, "one", "1")[0]; got.Incarnation != inc {
		s.Fatalf("the shard's incarnation is %q", got.Incarnation)
	}
}

// unitSwallowedError checks that a commit fails if the handler ignored the error that aborted its
// transaction.
func (s *suite[TTx]) unitSwallowedError() {
	if s.can.Poison == nil {
		s.Skip("no error aborts a transaction here")
	}
	m := mark()
	u := s.begin(s.d, intake(m))
	s.put(u.Tx(), "k", "v")
	if s.can.Poison(u.Tx()) == nil {
		s.Fatal("the harness poisoned nothing")
	}
	if err := u.Commit(s.Context(), rows(message("a", 1))); err == nil {
		s.Fatal("the commit of an aborted transaction answers success")
	}
	s.wantCounts(0, 0, 0)
	s.wantUser("k", "")
	u = s.begin(s.d, intake(m)) // no transaction stayed open, either
	s.put(u.Tx(), "k", "v")
	if s.can.Poison(u.Tx()) == nil {
		s.Fatal("the harness poisoned nothing")
	}
	if err := u.Commit(s.Context()); err == nil {
		s.Fatal("the commit of an aborted transaction without effects answers success")
	}
	s.wantCounts(0, 0, 0)
	s.wantUser("k", "")
}

func (s *suite[TTx]) unitEnded() {
	for _, end := range []func(u store.Unit[TTx]){
		func(u store.Unit[TTx]) { s.commit(u) },
		s.rollback,
		func(u store.Unit[TTx]) {
			s.wantError(u.Commit(s.Context(),
				store.Effect{Locks: []store.Lock{{Space: "order", Key: "z", Version: 9}}}),
				store.ErrLost, "commit")
		},
	} {
		u := s.begin(s.d, store.Intake{})
		end(u)
		before := s.db.Count(s)
		if err := s.d.Write(s.Context(), u.Tx(), rows(message("a", 1))); err == nil {
			s.Error("Write into an ended unit's transaction answers success")
		}
		if err := s.db.Put(u.Tx(), "late", "v"); err == nil {
			s.Error("a statement in an ended unit's transaction answers success")
		}
		if err := u.Commit(s.Context(), rows(message("a", 1))); err == nil {
			s.Error("Commit of an ended unit answers success")
		}
		s.wantUser("late", "")
		s.wantCounts(before.Rows, before.Marks, before.Aside)
	}
}

// unitBeginThatFails checks that a failed Begin leaves no marks, locks or open transaction.
func (s *suite[TTx]) unitBeginThatFails() {
	first, second := mark(), mark()
	holder := s.begin(s.db.Driver(s), store.Intake{Marks: []store.Mark{second},
		Locks: []store.Lock{{Space: "order", Key: "b"}}})
	for _, in := range []store.Intake{
		{Marks: []store.Mark{first, second}, Wait: shortly},
		{Marks: []store.Mark{first}, Locks: []store.Lock{{Space: "order", Key: "a"},
			{Space: "order", Key: "b"}}, Wait: shortly},
	} {
		_, err := s.d.Begin(s.Context(), in)
		s.wantError(err, store.ErrBusy, "begin against a rival")
		if !s.d.Outage(err) {
			s.Fatalf("%v is no outage", err)
		}
		if s.can.Rivals {
			u := s.begin(s.db.Driver(s), store.Intake{Marks: []store.Mark{first},
				Locks: []store.Lock{{Space: "order", Key: "a"}}, Wait: patience})
			s.found(u, store.Fresh)
			s.rollback(u)
		}
	}
	s.rollback(holder)
	u := s.begin(s.d, intake(first, second))
	s.found(u, store.Fresh, store.Fresh)
	s.rollback(u)
	s.wantCounts(0, 0, 0)
}

func (s *suite[TTx]) unitBeginCancelled() {
	m := mark()
	if _, err := s.d.Begin(s.cancelled(), intake(m)); err == nil {
		s.Fatal("begin under a cancelled context answers success")
	}
	holder := s.begin(s.db.Driver(s), intake(m))
	ctx, stop := context.WithTimeout(s.Context(), shortly)
	defer stop()
	began := time.Now()
	if _, err := s.d.Begin(ctx, intake(m)); err == nil {
		s.Fatal("begin against a rival answers success")
	}
	if took := time.Since(began); took > patience/2 {
		s.Fatalf("begin outlived its context by %v", took-shortly)
	}
	s.rollback(holder)
	u := s.begin(s.d, intake(m))
	s.found(u, store.Fresh)
	s.commit(u)
}

// unitCommitCancelled checks that the marks show whether a commit with a cancelled context took effect, for
// any result of the commit.
func (s *suite[TTx]) unitCommitCancelled() {
	m := mark()
	u := s.begin(s.d, intake(m))
	s.put(u.Tx(), "k", "v")
	if err := u.Commit(s.cancelled(), rows(message("a", 1))); err == nil {
		s.Fatal("commit under a cancelled context answers success")
	}
	u = s.begin(s.d, intake(m))
	switch u.Found().Marks[0].Outcome {
	case store.Fresh:
		s.wantUser("k", "")
		s.wantCounts(0, 0, 0)
	case store.Done:
		s.wantUser("k", "v")
		s.wantCounts(1, 1, 0)
	}
	s.rollback(u)
}

func (s *suite[TTx]) unitRollbackCancelled() {
	m := mark()
	u := s.begin(s.d, intake(m))
	s.put(u.Tx(), "k", "v")
	_, _ = u.Rollback(s.cancelled()) // its error is no statement about the rows
	s.wantUser("k", "")
	u = s.begin(s.d, intake(m))
	s.found(u, store.Fresh)
	s.rollback(u)
}

// unitIdle checks that a handler that leaves its transaction idle for too long loses it, and that a rival
// continues.
func (s *suite[TTx]) unitIdle() {
	m := mark()
	paused := s.pausedUnit(m)
	u := s.begin(s.db.Driver(s), intake(m))
	s.found(u, store.Fresh)
	s.put(u.Tx(), "k", "rival")
	s.commit(u)
	if err := paused.Commit(s.Context(), rows(message("a", 1))); err == nil {
		s.Fatal("a unit that the database ended commits")
	}
	s.wantCounts(0, 1, 0)
	s.wantUser("k", "rival")
	u = s.begin(s.d, store.Intake{})
	s.commit(u, rows(message("a", 2)))
	s.wantCounts(1, 1, 0)
}

// pausedUnit returns a unit that has written and then paused for too long. On a busy machine the time may be
// over before the write; then pausedUnit tries again with more time.
func (s *suite[TTx]) pausedUnit(m store.Mark) store.Unit[TTx] {
	in := intake(m)
	for in.Handle = shortly; in.Handle < patience; in.Handle *= 2 {
		u, err := s.d.Begin(s.Context(), in)
		if err != nil {
			continue
		}
		if err = s.db.Put(u.Tx(), "k", "paused"); err == nil {
			return u
		}
		_, _ = u.Rollback(s.Context()) // the database has ended it
	}
	s.Fatalf("a unit with %v could not write", in.Handle)
	return nil
}

// unitParallel checks that units on different rows do not wait for each other.
func (s *suite[TTx]) unitParallel() {
	if !s.can.Rivals {
		s.Skip("one writer at a time")
	}
	var us []store.Unit[TTx]
	for _, key := range []string{"a", "b", "c"} {
		u := s.begin(s.db.Driver(s), store.Intake{Marks: []store.Mark{mark()},
			Locks: []store.Lock{{Space: "order", Key: key}}, Wait: patience})
		s.put(u.Tx(), key, "v")
		s.write(u.Tx(), message(key, 1))
		us = append(us, u)
	}
	for _, u := range us {
		s.commit(u)
	}
	s.wantCounts(3, 3, 0)
}

// otherDeadlock is an error of another database's driver.
type otherDeadlock struct{}

func (otherDeadlock) Error() string    { return "deadlock detected" }
func (otherDeadlock) SQLState() string { return "40P01" }

// unitOutageIsItsOwn checks that errors of other connections are no outage of a unit.
func (s *suite[TTx]) unitOutageIsItsOwn() {
	m := mark()
	u := s.begin(s.d, intake(m))
	s.put(u.Tx(), "k", "v")
	for _, err := range []error{nil, errors.New("a handler's own"), otherDeadlock{}, store.ErrBusy,
		store.ErrLost, io.ErrUnexpectedEOF, context.DeadlineExceeded,
		driver.ErrBadConn, fmt.Errorf("another service: %w", syscall.ECONNREFUSED)} {
		if u.Outage(s.Context(), err) {
			s.Errorf("%v is taken for the unit's own", err)
		}
	}
	s.commit(u)
	s.wantUser("k", "v")
}

func (s *suite[TTx]) unitEmpty() {
	s.commit(s.begin(s.d, store.Intake{}))
	s.commit(s.begin(s.d, store.Intake{}), store.Effect{})
	s.applied([]bool{})
	s.applied([]bool{true}, store.Effect{})
	s.wantCounts(0, 0, 0)
	if s.d.Outage(nil) || s.d.Outage(errors.New("a handler's own")) || s.d.Outage(store.ErrLost) ||
		s.d.Outage(store.ErrLent) {
		s.Error("what is no outage is called one")
	}
}

// unitProbe checks that handlers which use every connection, or are the only writer, are no outage.
func (s *suite[TTx]) unitProbe() {
	s.ok(s.d.Probe(s.Context()), "probe at rest")
	busy := s.d
	if s.can.Pool != nil {
		busy = s.can.Pool(s, s.db, 1)
	}
	u := s.begin(busy, intake(mark()))
	ctx, cancel := context.WithTimeout(s.Context(), store.ProbeWait)
	defer cancel()
	s.ok(busy.Probe(ctx), "probe while a handler holds what there is")
	s.rollback(u)
	if busy.Probe(s.cancelled()) == nil {
		s.Error("a probe under a context that is over finds the database there")
	}
}
