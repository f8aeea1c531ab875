package storetest

import (
	"errors"
	"time"

	"github.com/skald-go/skald/store"
)

func recoverTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"NothingMoved": (*suite[TTx]).recoverNothingMoved,
		"WentBack":     (*suite[TTx]).recoverWentBack,
		"TickGone":     (*suite[TTx]).recoverTickGone,
		"ShardBeyond":  (*suite[TTx]).recoverShardBeyond,
		"TwoAtOnce":    (*suite[TTx]).recoverTwoAtOnce,
	}
}

func (s *suite[TTx]) recover(look bool) store.Recovered {
	s.Helper()
	note := &store.Audit{Author: "ann", Reason: "it moved", Action: "recover"}
	if look {
		note = nil
	}
	was, err := s.d.Audits(s.Context(), store.AuditQuery{Limit: 9})
	s.ok(err, "read the audit")
	done, err := s.d.Recover(s.Context(), note)
	s.ok(err, "recover")
	is, err := s.d.Audits(s.Context(), store.AuditQuery{Limit: 9})
	s.ok(err, "read the audit")
	switch added := len(is) - len(was); {
	case done.Moved == "" || look:
		if added != 0 {
			s.Errorf("nothing is done, and noted: %+v", is[0])
		}
	case added != 1 || is[0].Action != "recover" || is[0].Reason != "it moved":
		s.Errorf("of %+v it is noted %+v", done, is)
	}
	return done
}

func (s *suite[TTx]) leaseAfter(knew ...store.Shard) error {
	_, err := s.d.Lease(s.Context(), store.LeaseRequest{Owner: "one", Session: "1", TTL: time.Hour,
		LastKnown: knew})
	return err
}

func (s *suite[TTx]) wantMoved(err error, doing string) {
	s.Helper()
	var moved *store.MovedError
	if !errors.As(err, &moved) || moved.Observed == "" || !errors.Is(err, store.ErrMoved) ||
		!store.Incurable(err) || s.d.Outage(err) {
		s.Fatalf("%s: got %v, want that the database moved", doing, err)
	}
}

// recoverNothingMoved checks two cases in which the database did not move: it still has the state that a
// relay had, or a shard has a new owner.
func (s *suite[TTx]) recoverNothingMoved() {
	s.insert(message("a", 1))
	was := s.lease(s.d, "one", "1")
	c := s.advance(was[0])
	was[0].Cursor = c
	s.ok(s.leaseAfter(was...), "lease")
	gone := was[1]
	gone.Cursor.Base = c.Base + "9"
	s.ask(s.d, store.LeaseRequest{Owner: "one", Session: "1", TTL: time.Hour, Release: []int{gone.ID}})
	s.ask(s.d, store.LeaseRequest{Owner: "two", Session: "1", TTL: time.Hour})
	s.ok(s.leaseAfter(gone), "lease, of a shard that another relay has taken")
	if done := s.recover(false); done != (store.Recovered{}) {
		s.Errorf("where nothing moved the recover does %+v", done)
	}
	if got := s.lease(s.d, "one", "1")[0]; got.Epoch != was[0].Epoch || got.Token != was[0].Token ||
		got.Cursor != c {
		s.Errorf("and the shard goes from %+v to %+v", was[0], got)
	}
}

// recoverWentBack checks a database that is behind a relay. No relay gets a shard until Recover. Then relays
// read in order all retained rows that are not known to be acknowledged, including rows that were written
// meanwhile.
func (s *suite[TTx]) recoverWentBack() {
	a, b, later := message("a", 1), message("a", 2), message("a", 3)
	s.insert(a)
	was := s.lease(s.d, "one", "1")
	s.insert(b)
	ahead := was[0]
	ahead.Epoch++
	s.wantMoved(s.leaseAfter(ahead), "lease")
	s.wantMoved(s.leaseAfter(), "lease again")
	_, err := s.db.Driver(s).Lease(s.Context(), store.LeaseRequest{Owner: "two", Session: "1"})
	s.wantMoved(err, "another relay's lease")
	looked := s.recover(true)
	s.wantMoved(s.leaseAfter(), "lease after a look")
	s.insert(later)
	done := s.recover(false)
	if looked.Moved == "" || looked.Again != 0 || done.Moved != looked.Moved || done.Again != 3 ||
		done.Covered != 0 || done.Shards != shards {
		s.Errorf("a look sees %+v, the recover does %+v", looked, done)
	}
	if again := s.recover(false); again != (store.Recovered{}) {
		s.Errorf("the second recover does %+v", again)
	}
	s.applied([]bool{false}, progress(progressOf(was[0])))
	is := s.lease(s.d, "two", "1")
	if len(is) != shards || is[0].Epoch <= was[0].Epoch || is[0].Token == was[0].Token {
		s.Fatalf("after the recover shard %d goes from %+v to %+v", was[0].ID, was[0], is)
	}
	_, got := s.rowsSince(is[0].Cursor.Base)
	s.wantIDs(got, a.ID, b.ID, later.ID)
}

// recoverTwoAtOnce checks that only one of several concurrent calls of Recover has an effect, so that relays
// start again only once.
func (s *suite[TTx]) recoverTwoAtOnce() {
	s.insert(message("a", 1))
	other := s.db.Driver(s)
	ds := []store.Driver[TTx]{s.d, s.d, other, other}
	for range 5 {
		was := s.lease(s.d, "one", "1")[0]
		ahead := was
		ahead.Epoch++
		s.wantMoved(s.leaseAfter(ahead), "lease")
		audits, results := s.db.Count(s).Audits, make(chan error)
		// without other writers, all of them wait for it
		holder := s.begin(other, store.Intake{})
		for _, d := range ds {
			go func() {
				_, err := d.Recover(s.Context(), &store.Audit{Author: "ann", Action: "recover"})
				results <- err
			}()
		}
		s.rollback(holder)
		for range ds {
			if err := <-results; err != nil {
				s.Errorf("a recover among others: %v", err)
			}
		}
		if got := s.db.Count(s).Audits - audits; got != 1 {
			s.Fatalf("%d of %d recovers at the same time did something", got, len(ds))
		}
		is := s.lease(s.d, "one", "1")[0]
		if _, got := s.rowsSince(is.Cursor.Base); len(got) != 1 {
			s.Fatalf("%d rows are read, want 1", len(got))
		}
	}
}

func (s *suite[TTx]) recoverTickGone() {
	s.insert(message("a", 1))
	knew := s.lease(s.d, "one", "1")[0]
	knew.Cursor.Base = s.tick("") + "9"
	s.wantMoved(s.leaseAfter(knew), "lease")
	s.recover(false)
	s.ok(s.leaseAfter(), "lease after the recover")
}

// recoverShardBeyond checks a shard whose tick does not exist.
func (s *suite[TTx]) recoverShardBeyond() {
	a := message("a", 1)
	s.insert(a)
	p := progressOf(s.lease(s.d, "one", "1")[3])
	p.Cursor = &store.Cursor{Base: s.tick("") + "9"}
	s.apply(progress(p))
	s.wantMoved(s.leaseAfter(), "lease")
	if done := s.recover(false); done.Again != 1 {
		s.Errorf("the recover does %+v", done)
	}
	is := s.lease(s.d, "one", "1")[3]
	_, got := s.rowsSince(is.Cursor.Base)
	s.wantIDs(got, a.ID)
}
