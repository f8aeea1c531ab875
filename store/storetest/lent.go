package storetest

import (
	"context"
	"errors"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// unitBegunAgain checks a handler that ends its transaction and begins another one. Neither commit nor
// rollback of the unit succeeds, and no COMMIT by the handler stores the marks.
func (s *suite[TTx]) unitBegunAgain() {
	if s.can.Anew == nil {
		s.Skip("no statement ends a transaction and begins another here")
	}
	instead := rows(message("a", 2))
	for _, anew := range s.can.Anew {
		for name, end := range map[string]func(u store.Unit[TTx]) error{
			"commit":      func(u store.Unit[TTx]) error { return u.Commit(s.Context()) },
			"commit rows": func(u store.Unit[TTx]) error { return u.Commit(s.Context(), instead) },
			"rollback":    func(u store.Unit[TTx]) error { return second(u.Rollback(s.Context())) },
			"instead":     func(u store.Unit[TTx]) error { return second(u.Rollback(s.Context(), instead)) },
		} {
			u := s.begin(s.d, intake(mark()))
			s.put(u.Tx(), "before", "v")
			if err := anew(u.Tx()); err == nil {
				s.put(u.Tx(), "anew", "v")
			}
			s.wantError(end(u), store.ErrLent, name+" of a transaction that the handler began")
			s.wantUser("before", "")
			s.wantUser("anew", "")
			s.wantCounts(0, 0, 0)
		}
		s.againAborted(anew)
	}
}

// againAborted checks that nothing of a transaction is stored after an error that follows its end.
func (s *suite[TTx]) againAborted(anew func(TTx) error) {
	if s.can.Poison == nil {
		return
	}
	u := s.begin(s.d, intake(mark()))
	s.put(u.Tx(), "before", "v")
	_ = anew(u.Tx())
	_ = s.can.Poison(u.Tx())
	_, _ = u.Rollback(s.Context())
	s.wantUser("before", "")
	s.wantCounts(0, 0, 0)
}

func second(_ []bool, err error) error { return err }

// unitFewConnections checks that no caller that has a connection waits for another one, even after a failed
// handler. It uses pools with one connection, and with one connection for each worker.
func (s *suite[TTx]) unitFewConnections() {
	if s.can.Pool == nil || s.can.Poison == nil {
		s.Skip("no pool, or no error that aborts a transaction")
	}
	for _, n := range []int{1, 4} {
		d := s.can.Pool(s, s.db, n)
		units := make([]store.Unit[TTx], n)
		for i := range units {
			units[i] = s.begin(d, intake(mark()))
			if s.can.Poison(units[i].Tx()) == nil {
				s.Fatal("the harness poisoned nothing")
			}
		}
		ctx, stop := context.WithTimeout(s.Context(), patience)
		errs := make(chan error)
		for _, u := range units {
			go func() {
				m := mark()
				m.Outcome, m.Reason = store.Rejected, "no"
				stored, err := u.Rollback(ctx, store.Effect{Mark: &m, Rows: []skald.Message{message("a", 1)}})
				if err == nil && !stored[0] {
					err = errors.New("the rejection lost its guard")
				}
				errs <- err
			}()
		}
		for range units {
			if err := <-errs; err != nil {
				s.Errorf("%d failed handlers at %d connections: %v", n, n, err)
			}
		}
		stop()
	}
	s.wantCounts(5, 5, 0) // of one and of four
}

func (s *suite[TTx]) unitLent() {
	for name, end := range map[string]func(TTx) error{"commit": s.db.Commit, "rollback": s.db.Rollback} {
		u := s.begin(s.d, intake(mark()))
		s.put(u.Tx(), name, "v")
		s.write(u.Tx(), message("a", 1))
		s.wantError(u.Usable(s.Context()), nil, "a unit before "+name)
		err, before := end(u.Tx()), s.db.Count(s)
		if s.can.StopsCommit {
			s.wantError(err, store.ErrLent, name+" of a lent transaction")
			s.wantError(u.Usable(s.Context()), nil, "a unit whose "+name+" was refused")
			s.wantUser(name, "")
			s.commit(u)
			s.wantUser(name, "v")
			continue
		}
		s.wantError(u.Usable(s.Context()), store.ErrLent, "a unit after the handler's "+name)
		s.wantError(u.Commit(s.Context(), rows(message("a", 2))), store.ErrLent,
			"commit after the handler's "+name)
		if got := s.db.Count(s).Rows; got != before.Rows {
			s.Fatalf("after ErrLent %d rows were written", got-before.Rows)
		}
	}
}

// unitReturn checks that Return revokes the transaction, and that its writes are committed with those of
// the next function.
func (s *suite[TTx]) unitReturn() {
	if !s.can.StopsCommit {
		s.Skip("a handle that cannot refuse a commit cannot be revoked")
	}
	u := s.begin(s.d, intake(mark()))
	first := u.Tx()
	s.put(first, "first", "v")
	s.write(first, message("a", 1))
	u.Return()
	s.wantError(u.Usable(s.Context()), nil, "a unit whose function returned")
	if s.db.Put(first, "late", "v") == nil || s.d.Write(s.Context(), first, rows(message("a", 2))) == nil {
		s.Fatal("it writes after its function has returned")
	}
	s.put(u.Tx(), "second", "v")
	s.write(u.Tx(), message("a", 3))
	s.commit(u)
	s.wantUser("first", "v")
	s.wantUser("late", "")
	s.wantUser("second", "v")
	s.wantCounts(2, 1, 0)
}

// unitUndo checks that Undo undoes the writes of one function, and that the writes of the other functions are
// committed.
func (s *suite[TTx]) unitUndo() {
	for _, each := range []struct{ before, sends, fails bool }{{}, {before: true}, {sends: true},
		{before: true, sends: true}, {sends: true, fails: true}} {
		first, no, last := mark(), mark(), mark()
		u := s.begin(s.d, intake(first, no, last))
		if !u.Savepoint(s.Context()) {
			_, _ = u.Rollback(s.Context())
			s.Skip("the driver has no savepoints")
		}
		was := s.db.Count(s).Rows
		if each.before {
			s.write(u.Tx(), message("a", 1))
		} else {
			s.put(u.Tx(), first.ID, "v")
		}
		u.Return()
		s.yes(u.Savepoint(s.Context()), "a savepoint for the second function")
		s.write(u.Tx(), message("a", 2))
		if each.sends {
			s.put(u.Tx(), no.ID, "v")
			s.write(u.Tx(), message("a", 3))
		}
		if each.fails && s.can.Poison != nil && s.can.StopsCommit {
			_ = s.can.Poison(u.Tx())
		}
		u.Return()
		s.ok(u.Undo(s.Context()), "undo")
		s.wantError(u.Usable(s.Context()), nil, "a unit whose second function was undone")
		s.write(u.Tx(), message("no", 4))
		s.yes(u.Savepoint(s.Context()), "a savepoint for the third function")
		s.put(u.Tx(), last.ID, "v")
		s.write(u.Tx(), message("a", 5))
		u.Return()
		no.Outcome, no.Reason = store.Rejected, "no"
		s.commit(u, store.Effect{Answer: &no})
		want := map[bool]string{false: "v"}[each.before]
		s.wantUser(first.ID, want)
		s.wantUser(no.ID, "")
		s.wantUser(last.ID, "v")
		n := 2
		if each.before {
			n++
		}
		if got := s.db.Count(s).Rows - was; got != n {
			s.Errorf("%+v: %d rows were written, want %d", each, got, n)
		}
		seen, err := s.d.Seen(s.Context(), no.Consumer, []store.Identity{first.Identity, no.Identity})
		s.ok(err, "seen")
		if seen[0].Outcome != store.Done || seen[1].Outcome != store.Rejected || seen[1].Reason != "no" {
			s.Errorf("%+v: verdicts: %+v", each, seen)
		}
	}
}

// unitDrop checks that Drop during a function frees the locks and commits nothing.
func (s *suite[TTx]) unitDrop() {
	u := s.begin(s.d, intake(mark()))
	s.put(u.Tx(), "k", "dropped")
	dropped := make(chan bool)
	go func() {
		defer close(dropped)
		u.Drop()
	}()
	<-dropped
	then := s.begin(s.d, intake(mark()))
	s.put(then.Tx(), "k", "v")
	s.commit(then)
	if u.Commit(s.Context()) == nil {
		s.Error("it is committed after Drop")
	}
	u.Drop() // after the end of the unit
	s.wantUser("k", "v")
	s.wantCounts(0, 1, 0)

	u = s.begin(s.d, intake(mark()))
	u.Drop()
	verdict := mark()
	verdict.Outcome, verdict.Reason = store.Rejected, "no"
	if stored, err := u.Rollback(s.Context(), store.Effect{Mark: &verdict}); err != nil || !stored[0] {
		s.Errorf("Rollback after Drop applies nothing: %v", err)
	}
	s.wantCounts(0, 2, 0)
}

// unitDropKeepsNoConnection checks that a dropped unit keeps no connection of a small pool.
func (s *suite[TTx]) unitDropKeepsNoConnection() {
	if s.can.Pool == nil {
		s.Skip("the driver has no pool")
	}
	d := s.can.Pool(s, s.db, 1)
	for range 3 {
		u := s.begin(d, intake(mark()))
		u.Drop()
	}
	s.commit(s.begin(d, intake(mark())))
	s.wantCounts(0, 1, 0)
}
