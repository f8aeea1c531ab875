package storetest

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald/store"
)

// listLocks checks that locks are listed until their transaction ends, if the database shows locks. It also
// checks that reserved keys are listed.
func (s *suite[TTx]) listLocks() {
	list := func(q store.LockQuery) store.Locks {
		s.Helper()
		l, err := store.ListLocks(s.Context(), s.d, q)
		s.ok(err, "list locks")
		return l
	}
	if got := list(store.LockQuery{}); len(got.Entities)+len(got.Reserved) > 0 || got.Part {
		s.Errorf("nothing is locked: %+v", got)
	}
	s.commit(s.lockKeys([]string{"a", "b"}, 1, 1))
	m := identities()[0]
	s.reserve(reserving(m, "one", time.Hour))
	a := store.Lock{Space: "order", Key: "a", Version: 1}
	u := s.lockKeys([]string{"a"}, 2)
	got := list(store.LockQuery{})
	switch {
	case !got.Supported && len(got.Entities) > 0:
		s.Errorf("Told is false, but there are %+v", got.Entities)
	case got.Supported && (len(got.Entities) != 1 || got.Entities[0].Lock != a || got.Entities[0].Holder == "" ||
		got.Entities[0].Unnamed || got.Entities[0].Since < 0):
		s.Errorf("one is locked: %+v", got.Entities)
	}
	if len(got.Reserved) != 1 || got.Reserved[0].Identity != m.Identity ||
		got.Reserved[0].Consumer != m.Consumer || got.Reserved[0].Left <= 0 ||
		got.Reserved[0].Left > time.Hour {
		s.Errorf("one is reserved: %+v", got.Reserved)
	}
	s.rollback(u)
	free := list(store.LockQuery{Entity: &a, Consumer: "somebody else"})
	if len(free.Entities) != 1 || free.Entities[0].Lock != a || free.Entities[0].Holder != "" ||
		len(free.Reserved) > 0 {
		s.Errorf("it is free again: %+v", free)
	}
	if got := list(store.LockQuery{Entity: &store.Lock{Space: "order", Key: "nobody"}}); len(
		got.Entities) > 0 {
		s.Errorf("one that never was: %+v", got.Entities)
	}
	if u := s.lockKeys([]string{"new"}, 1); got.Supported {
		got := list(store.LockQuery{}).Entities
		if len(got) != 1 || got[0].Holder == "" || !got[0].Unnamed && got[0].Key != "new" {
			s.Errorf("a new one is locked: %+v", got)
		}
		s.rollback(u)
	} else {
		s.rollback(u)
	}
}

// listWaiting checks that unpublished rows are listed in the order of writing, up to the limit, including
// refused ones.
func (s *suite[TTx]) listWaiting() {
	list := func(most int) []store.WaitingRow {
		s.Helper()
		l, err := store.ListWaiting(s.Context(), s.d, most)
		s.ok(err, "list rows that wait")
		return l
	}
	gone := s.insertOne(message("a", 0))
	s.cover(store.Cursor{Base: s.base})
	if got := list(10); len(got) > 0 {
		s.Errorf("all are published: %+v", got)
	}
	refused := s.insertOne(message("b", 1))
	s.setAside(store.DeferredRow{Row: refused, Attempts: 2, Why: "too large"})
	plain, last := s.insertOne(message("c", 2)), s.insertOne(message("", 3))
	got := list(10)
	if len(got) != 3 || got[0].Seq <= gone.Seq {
		s.Fatalf("three wait: %+v", got)
	}
	for i, want := range []store.Row{refused, plain, last} {
		w := got[i]
		if w.Seq != want.Seq || !strings.EqualFold(w.ID, want.ID) || w.Topic != want.Topic ||
			w.Type != want.Type || !bytes.Equal(w.Key, want.Key) ||
			w.Shard != s.shardOf(want).ID || w.Written.Sub(want.Time).Abs() > time.Millisecond || w.Age < 0 {
			s.Errorf("%+v, want %+v", w, want)
		}
	}
	if r := got[0]; !r.Deferred || r.Attempts != 2 || r.LastError != "too large" || got[1].Deferred ||
		got[1].Attempts > 0 {
		s.Errorf("the first was refused: %+v", got)
	}
	if few := list(1); len(few) != 2 ||
		!slices.EqualFunc(few, got[:2], func(a, b store.WaitingRow) bool { return a.Seq == b.Seq }) {
		s.Errorf("one of each: %+v", few)
	}
}

// parkedTooLate checks a park of a message that is in progress elsewhere. The park waits, and loses its guard
// if the other process finishes the message.
func (s *suite[TTx]) parkedTooLate() {
	a := parked("k", 1)
	u := s.begin(s.d, intake(arriving(a)))
	rival := s.db.Driver(s)
	var stored []bool
	done := meanwhile(func() {
		var err error
		if stored, err = rival.Apply(s.Context(), keeping(a)...); err != nil {
			s.Errorf("park: %v", err)
		}
	})
	s.wantBlocked(done, "who parks a message in hand")
	s.commit(u)
	s.comes(done, "who parks a message in hand")
	if !slices.Equal(stored, []bool{false}) || len(s.kept(store.ParkedQuery{})) != 0 {
		s.Errorf("a finished message was parked")
	}
}
