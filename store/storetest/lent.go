package storetest

import (
	"context"
	"errors"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// A handler that ends its transaction and begins another has taken the mark off its own rows: no commit of
// that is a success.
func (s *suite[TTx]) unitBegunAnew() {
	if s.can.Anew == nil {
		s.Skip("no statement ends a transaction and begins another here")
	}
	for _, anew := range s.can.Anew {
		for _, es := range [][]store.Effect{nil, {rows(message("a", 1))}} {
			u := s.begin(s.d, intake(mark()))
			if err := anew(u.Tx()); err != nil {
				s.Fatal(err)
			}
			s.put(u.Tx(), "anew", "v")
			s.is(u.Commit(s.Context(), es...), store.ErrLent,
				"commit of a transaction that the handler began")
			s.user("anew", "")
			if got := s.db.Count(s).Rows; got != 0 {
				s.Fatalf("%d rows were written", got)
			}
		}
	}
}

// Whatever a failed handler left, nobody waits for a connection while it holds one: with one connection, and
// with one for each worker.
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
				m.As, m.Reason = store.Rejected, "no"
				stood, err := u.Rollback(ctx, store.Effect{Mark: &m, Rows: []skald.Message{message("a", 1)}})
				if err == nil && !stood[0] {
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
	s.counts(5, 5, 0) // of one and of four
}

func (s *suite[TTx]) unitLent() {
	for name, end := range map[string]func(TTx) error{"commit": s.db.Commit, "rollback": s.db.Rollback} {
		u := s.begin(s.d, intake(mark()))
		s.put(u.Tx(), name, "v")
		s.write(u.Tx(), message("a", 1))
		err, before := end(u.Tx()), s.db.Count(s)
		if s.can.StopsCommit {
			s.is(err, store.ErrLent, name+" of a lent transaction")
			s.user(name, "")
			s.commit(u)
			s.user(name, "v")
			continue
		}
		s.is(u.Commit(s.Context(), rows(message("a", 2))), store.ErrLent, "commit after the handler's "+name)
		if got := s.db.Count(s).Rows; got != before.Rows {
			s.Fatalf("after ErrLent %d rows were written", got-before.Rows)
		}
	}
}
