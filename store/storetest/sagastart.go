package storetest

import (
	"errors"
	"time"

	"github.com/skald-go/skald/store"
)

func (s *suite[TTx]) sagaStart() {
	tx := s.db.Begin(s)
	_, _, err := s.d.StartSaga(s.Context(), tx, sagaOf("a"))
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

// Whoever starts a saga again finds the one that is there, also in a transaction that wrote it, and can
// compare the fingerprint.
func (s *suite[TTx]) sagaStartAgain() {
	first := sagaOf("a")
	tx := s.db.Begin(s)
	for i := range 2 {
		again := sagaOf("a")
		again.ID, again.Fingerprint, again.Input = first.ID, first.Fingerprint+int64(i), "{}"
		if i == 0 {
			again = first
		}
		stored, fresh, err := s.d.StartSaga(s.Context(), tx, again)
		s.ok(err, "start")
		if fresh != (i == 0) || stored.Fingerprint != first.Fingerprint || stored.Input != first.Input {
			s.Errorf("start %d: fresh %v, %+v", i, fresh, stored)
		}
	}
	s.ok(s.db.Commit(tx), "commit")
	s.apply(store.Effect{Saga: moved(s.saga("a"), "1")})
	u := s.begin(s.d, store.Intake{})
	stored, fresh, err := s.d.StartSaga(s.Context(), u.Tx(), sagaOf("a"))
	s.ok(err, "start in a unit")
	if fresh || stored != s.sagaIn(u.Tx(), "a") || stored.State != "1" || stored.Version != 2 {
		s.Errorf("in a unit: fresh %v, %+v", fresh, stored)
	}
	s.commit(u)
	other := sagaOf("a")
	other.Name = "refund"
	s.start(other, sagaOf("b"), sagaOf("A")) // of another definition, and other keys
}

func (s *suite[TTx]) sagaStartRival() {
	for _, end := range []string{"rolled back", "committed"} {
		tx := s.db.Begin(s)
		_, _, err := s.d.StartSaga(s.Context(), tx, sagaOf(end))
		s.ok(err, "start")
		var fresh bool
		came := meanwhile(func() {
			u, begun := s.db.Driver(s).Begin(s.Context(), store.Intake{Wait: patience})
			if err = begun; err != nil {
				return
			}
			if _, fresh, err = s.d.StartSaga(s.Context(), u.Tx(), sagaOf(end)); err == nil {
				err = u.Commit(s.Context())
			}
		})
		s.waits(came, "a rival that starts the same saga")
		if end == "committed" {
			s.ok(s.db.Commit(tx), "commit")
		} else {
			s.ok(s.db.Rollback(tx), "roll back")
		}
		s.comes(came, "the rival")
		s.ok(err, "the rival's start")
		if fresh != (end == "rolled back") {
			s.Errorf("the first was %s, and the rival's is fresh: %v", end, fresh)
		}
	}
}

// A saga takes the place of the one that it names, if that has ended: nothing of that is left, and whoever
// has read it writes nothing.
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
		stored, fresh, err := s.d.StartSaga(s.Context(), tx, one)
		s.ok(err, "start instead of another")
		s.ok(s.db.Commit(tx), "commit")
		if is := s.saga("a"); stored != is || fresh != (is.ID != before) {
			s.Errorf("fresh %v, the answer is\n%+v, stored is\n%+v", fresh, stored, is)
		}
		return fresh
	}
	if instead(was.ID) {
		s.Fatal("it takes the place of one that goes on")
	}
	end := moved(was, "1")
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
	if err := u.Commit(s.Context(), store.Effect{Saga: moved(ended, "2")}); !errors.Is(err, store.ErrLost) {
		s.Errorf("whoever has read the one before writes: %v", err)
	}
}
