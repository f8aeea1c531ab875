package storetest

import (
	"errors"
	"time"

	"github.com/skald-go/skald/store"
)

func (s *suite[TTx]) sagaStart() {
	tx := s.db.Begin(s)
	_, _, err := s.d.StartSagas(s.Context(), tx, sagaOf("a"))
	s.ok(err, "start")
	s.ok(s.db.Rollback(tx), "roll back")
	if got := s.saga("a"); got.Key != "" {
		s.Fatalf("a start that was rolled back left %+v", got)
	}
	want := sagaOf("a")
	want.Version = 1 << 50
	want.Since, want.Retry = time.UnixMilli(1_700_000_000_123).UTC(), time.UnixMilli(1_700_000_060_000).UTC()
	want.Stuck, want.Paused, want.Error, want.Failed = true, true, "no", 3
	got := s.start(want)[0]
	if since := time.Since(got.Started); since > patience || since < -patience ||
		got.Due.Sub(got.Started) != time.Hour {
		s.Errorf("started %v, leased until %v", got.Started, got.Due)
	}
	want.Lease, want.Started, want.Changed, want.Due = 0, got.Started, got.Changed, got.Due
	if got != want {
		s.Errorf("the start answers\n%+v, want\n%+v", got, want)
	}
	if stored := s.saga("a"); stored != want {
		s.Errorf("stored is\n%+v, want\n%+v", stored, want)
	}
}

// sagaStartAgain checks that a repeated start returns the stored saga, so that the caller can compare
// fingerprints. It does so even in the transaction that wrote the saga.
func (s *suite[TTx]) sagaStartAgain() {
	first := sagaOf("a")
	tx := s.db.Begin(s)
	for i := range 2 {
		again := sagaOf("a")
		again.ID, again.Fingerprint, again.Input = first.ID, first.Fingerprint+int64(i), "{}"
		if i == 0 {
			again = first
		}
		stored, fresh := s.startIn(tx, again)
		if fresh != (i == 0) || stored.Fingerprint != first.Fingerprint || stored.Input != first.Input {
			s.Errorf("start %d: fresh %v, %+v", i, fresh, stored)
		}
	}
	s.ok(s.db.Commit(tx), "commit")
	s.apply(store.Effect{Saga: nextMove(s.saga("a"), "1")})
	u := s.begin(s.d, store.Intake{})
	stored, fresh := s.startIn(u.Tx(), sagaOf("a"))
	if fresh || stored != s.sagaIn(u.Tx(), "a") || stored.State != "1" || stored.Version != 2 {
		s.Errorf("in a unit: fresh %v, %+v", fresh, stored)
	}
	s.commit(u)
	other := sagaOf("a")
	other.Name = "refund"
	s.start(other, sagaOf("b"), sagaOf("A")) // of another definition, and with other keys
}

// sagaStartMany starts many sagas together. Existing and repeated sagas are returned as stored.
func (s *suite[TTx]) sagaStartMany() {
	was := s.start(sagaOf("b"))[0]
	many := []store.Saga{sagaOf("d"), sagaOf("b"), sagaOf("a"), sagaOf("c"), sagaOf("a")}
	many[4].Input, many[2].Version = "{}", 1<<50
	tx := s.db.Begin(s)
	stored, fresh, err := s.d.StartSagas(s.Context(), tx, many...)
	s.ok(err, "start many")
	s.ok(s.db.Commit(tx), "commit")
	for i, is := range []bool{true, false, true, true, false} {
		if want := s.saga(many[i].Key); fresh[i] != is || stored[i] != want {
			s.Errorf("the start of %s is fresh: %v, and answers\n%+v, stored is\n%+v", many[i].Key, fresh[i],
				stored[i], want)
		}
	}
	if stored[1] != was || stored[4].Version != 1<<50 {
		s.Errorf("they are\n%+v\n%+v", stored[1], stored[4])
	}
	tx = s.db.Begin(s)
	_, _, err = s.d.StartSagas(s.Context(), tx, sagaOf("e"), sagaOf("f"))
	s.ok(err, "start two")
	s.ok(s.db.Rollback(tx), "roll back")
	if e := s.saga("e"); e.Key != "" {
		s.Errorf("a start that was rolled back left %+v", e)
	}
	u := s.begin(s.d, store.Intake{})
	none, _, err := s.d.StartSagas(s.Context(), u.Tx())
	s.ok(err, "start none")
	if len(none) != 0 {
		s.Errorf("no start answers %+v", none)
	}
	if _, fresh, err = s.d.StartSagas(s.Context(), u.Tx(), many[:1]...); err != nil || fresh[0] {
		s.Errorf("in a unit: %v, %v", fresh, err)
	}
	s.rollback(u)
}

// sagaLockMany locks many sagas together and writes all of them. Missing ones have no name.
func (s *suite[TTx]) sagaLockMany() {
	s.start(sagaOf("b"), sagaOf("a"))
	refs := []store.SagaRef{{Name: "order", Key: "none"}, {Name: "order", Key: "b"}, {Name: "order"},
		{Name: "order", Key: "a"}}
	tx := s.db.Begin(s)
	none, err := s.d.LockSagas(s.Context(), tx)
	s.ok(err, "lock none")
	got, err := s.d.LockSagas(s.Context(), tx, refs...)
	s.ok(err, "lock many")
	if len(none) != 0 || len(got) != len(refs) {
		s.Fatalf("%d and %d sagas are locked", len(none), len(got))
	}
	for i, want := range []store.Saga{{}, s.saga("b"), {}, s.saga("a")} {
		if want.Key != "" && got[i].Read.IsZero() {
			s.Errorf("%s was read at no time", want.Key)
		}
		if s.readSaga(got[i]) != want {
			s.Errorf("locked\n%+v, stored is\n%+v", got[i], want)
		}
	}
	err = s.d.Write(s.Context(), tx, store.Effect{Saga: nextMove(got[1], "1")},
		store.Effect{Saga: nextMove(got[3], "2"), Rows: rows(message("a", 1)).Rows})
	s.ok(err, "write two")
	s.ok(s.db.Commit(tx), "commit")
	s.wantSaga("b", "1", 2)
	s.wantSaga("a", "2", 2)
	tx = s.db.Begin(s)
	err = s.d.Write(s.Context(), tx, store.Effect{Saga: nextMove(s.saga("a"), "3")},
		store.Effect{Saga: nextMove(got[1], "3")})
	s.wantError(err, store.ErrLost, "write two, one of which was moved")
	s.ok(s.db.Rollback(tx), "roll back")
	s.wantSaga("a", "2", 2)
}

func (s *suite[TTx]) sagaStartRival() {
	for _, end := range []string{"rolled back", "committed"} {
		tx := s.db.Begin(s)
		s.startIn(tx, sagaOf(end))
		var err error
		var fresh []bool
		came := meanwhile(func() {
			u, begun := s.db.Driver(s).Begin(s.Context(), store.Intake{Wait: patience})
			if err = begun; err != nil {
				return
			}
			if _, fresh, err = s.d.StartSagas(s.Context(), u.Tx(), sagaOf(end)); err == nil {
				err = u.Commit(s.Context())
			}
		})
		s.wantBlocked(came, "a rival that starts the same saga")
		if end == "committed" {
			s.ok(s.db.Commit(tx), "commit")
		} else {
			s.ok(s.db.Rollback(tx), "roll back")
		}
		s.comes(came, "the rival")
		s.ok(err, "the rival's start")
		if fresh[0] != (end == "rolled back") {
			s.Errorf("the first was %s, and the rival's is fresh: %v", end, fresh)
		}
	}
}

// sagaStartInstead checks that a new saga replaces the saga in Instead, if that saga has ended. Nothing of
// the old saga remains, and a writer that read the old saga stores nothing.
func (s *suite[TTx]) sagaStartInstead() {
	was := s.start(sagaOf("a"))[0]
	next := sagaOf("a")
	next.Hash, next.Input, next.Fingerprint, next.Origin = "v2", `{"n":2}`, 8, "{}"
	next.Version, next.Instead = 1<<40, was.ID
	instead := func(of string) bool {
		one := next
		one.Instead = of
		before := s.saga("a").ID
		tx := s.db.Begin(s)
		stored, fresh := s.startIn(tx, one)
		s.ok(s.db.Commit(tx), "commit")
		if is := s.saga("a"); stored != is || fresh != (is.ID != before) {
			s.Errorf("fresh %v, the answer is\n%+v, stored is\n%+v", fresh, stored, is)
		}
		return fresh
	}
	if instead(was.ID) {
		s.Fatal("it takes the place of one that goes on")
	}
	tx := s.db.Begin(s)
	_, _, err := s.d.StartSagas(s.Context(), tx, sagaOf("b"), next)
	if err == nil || s.d.Outage(err) {
		s.Errorf("one that takes another's place, started with others: %v", err)
	}
	s.ok(s.db.Rollback(tx), "roll back")
	end := nextMove(was, "1")
	end.Final, end.Stuck, end.Error, end.Failed = true, true, "no", 3
	end.Since, end.Retry = time.UnixMilli(1_700_000_000_123).UTC(), time.UnixMilli(1_700_000_060_000).UTC()
	s.apply(store.Effect{Saga: end})
	if instead(newID()) || instead("") {
		s.Fatal("it takes the place of another one than it names")
	}
	ended := s.saga("a")
	if !instead(was.ID) || instead(was.ID) {
		s.Fatal("it does not take the place of one that has ended, once")
	}
	got := s.saga("a")
	want := next
	want.Instead, want.Lease, want.Started, want.Changed, want.Due = "", 0, got.Started, got.Changed, got.Due
	if got != want || got.Started.Before(ended.Ended) || got.Due.Sub(got.Started) != time.Hour {
		s.Errorf("stored is\n%+v, want\n%+v", got, want)
	}
	u := s.begin(s.d, store.Intake{})
	err = u.Commit(s.Context(), store.Effect{Saga: nextMove(ended, "2")})
	if !errors.Is(err, store.ErrLost) {
		s.Errorf("a move of the replaced saga: %v", err)
	}
}
