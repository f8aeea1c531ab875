package storetest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/skald-go/skald/store"
)

// shard0 renews the lease and returns the first shard.
func (s *suite[TTx]) shard0(session string) store.Shard {
	s.Helper()
	return s.lease(s.db.Driver(s), "one", session)[0]
}

func (s *suite[TTx]) shardProgress() {
	l := s.shard0("1")
	s.insert(message("a", 1))
	first := s.tick("")
	s.insert(message("a", 2))
	second := s.tick(first)
	for _, c := range []store.Cursor{
		{Tip: first}, {Tip: first, Seq: 1}, {Base: first}, {Base: first, Tip: second, Seq: 1 << 40},
		{Base: second, Tip: second, Seq: 3}, {},
	} {
		p := progressOf(l)
		p.Cursor = &c
		s.apply(progress(p))
		if got := s.shard0("1"); got.Cursor != c || got.Epoch != l.Epoch || got.Token != l.Token {
			s.Fatalf("the cursor %+v is stored as %+v", c, got)
		}
	}
}

// shardProgressOfOne checks that a progress changes only the fields that it sets.
func (s *suite[TTx]) shardProgressOfOne() {
	l := s.shard0("1")
	s.insert(message("a", 1))
	c := store.Cursor{Base: s.tick(""), Seq: 4}
	for _, step := range []struct {
		p    func(*store.Progress)
		want store.Shard
	}{
		{func(p *store.Progress) { p.Incarnation = new("größe ☃") }, store.Shard{Incarnation: "größe ☃"}},
		{func(p *store.Progress) { p.Cursor = &c }, store.Shard{Incarnation: "größe ☃", Cursor: c}},
		{func(*store.Progress) {}, store.Shard{Incarnation: "größe ☃", Cursor: c}},
		{func(p *store.Progress) { p.Incarnation = new("") }, store.Shard{Cursor: c}},
		{func(p *store.Progress) { p.Incarnation, p.Cursor = new("x"), &store.Cursor{} },
			store.Shard{Incarnation: "x"}},
	} {
		p := progressOf(l)
		step.p(&p)
		s.apply(progress(p))
		if got := s.shard0("1"); got.Incarnation != step.want.Incarnation || got.Cursor != step.want.Cursor {
			s.Fatalf("the shard is %+v, want %+v", got, step.want)
		}
	}
}

// shardStaleProgress checks that a relay that lost its shard stores nothing: no cursor, no incarnation, and
// no deferred or freed row.
func (s *suite[TTx]) shardStaleProgress() {
	aside, other := s.insertOne(message("a", 1)), s.insertOne(message("b", 2))
	s.setAside(store.DeferredRow{Row: aside, Attempts: 1})
	l := s.shardOf(aside)
	s.shards = s.lease(s.d, suiteOwner, "2")
	for name, p := range map[string]store.Progress{
		"epoch of before": {Shard: l.ID, Epoch: l.Epoch, Token: s.shardOf(aside).Token},
		"token of before": {Shard: l.ID, Epoch: s.shardOf(aside).Epoch, Token: l.Token},
		"both":            progressOf(l),
		"no token":        {Shard: l.ID, Epoch: s.shardOf(aside).Epoch},
	} {
		p.Cursor, p.Incarnation = &store.Cursor{Base: s.tick("")}, new("stale")
		p.Deferred, p.Freed = []store.DeferredRow{{Row: other}}, []int64{aside.Seq}
		s.applied([]bool{false}, progress(p))
		s.wantError(s.begin(s.d, store.Intake{}).Commit(s.Context(), progress(p)), store.ErrLost, name)
	}
	s.wantCounts(2, 0, 1)
	if got := s.readDue(10); len(got) != 1 || got[0].ID != aside.ID {
		s.Errorf("a stale owner changed the deferred rows to %+v", got)
	}
	for _, l := range s.lease(s.d, suiteOwner, "2") {
		if l.Cursor != (store.Cursor{}) || l.Incarnation != "" {
			s.Errorf("a stale owner changed shard %d to %+v", l.ID, l)
		}
	}
}

// shardManyProgresses checks one call with the progress of many shards, each with its own result.
func (s *suite[TTx]) shardManyProgresses() {
	ls := s.lease(s.d, "one", "1")
	s.insert(message("a", 1))
	c := store.Cursor{Base: s.tick(""), Seq: 9}
	var es []store.Effect
	var want []bool
	for i, l := range ls {
		p := progressOf(l)
		p.Cursor = &c
		if i%3 == 1 {
			p.Epoch--
		}
		es, want = append(es, progress(p)), append(want, i%3 != 1)
	}
	s.applied(want, es...)
	for i, l := range s.lease(s.d, "one", "1") {
		if got := l.Cursor == c; got != want[i] {
			s.Errorf("shard %d has the cursor %+v", l.ID, l.Cursor)
		}
	}
}

// shardCursorOfAll checks that two progresses of one shard in one call are applied in order.
func (s *suite[TTx]) shardCursorOfAll() {
	l := s.shard0("1")
	s.insert(message("a", 1))
	tip := s.tick("")
	var es []store.Effect
	for seq := range int64(5) {
		p := progressOf(l)
		p.Cursor = &store.Cursor{Tip: tip, Seq: seq + 1}
		es = append(es, progress(p))
	}
	s.apply(es...)
	if got := s.shard0("1").Cursor.Seq; got != 5 {
		s.Errorf("after 1 to 5 the cursor is at %d", got)
	}
}

func (s *suite[TTx]) shardLostInWholeUnit() {
	ls := s.lease(s.d, "one", "1")
	good, bad := progressOf(ls[0]), progressOf(ls[1])
	good.Incarnation, bad.Incarnation = new("b"), new("b")
	bad.Token += "x"
	s.wantError(s.begin(s.d, store.Intake{}).Commit(s.Context(), progress(good), progress(bad)),
		store.ErrLost, "commit")
	if got := s.lease(s.d, "one", "1"); got[0].Incarnation != "" || got[1].Incarnation != "" {
		s.Error("a unit that lost stored an incarnation")
	}
	if got := s.lease(s.d, "one", "1"); !slices.Equal(shardIDs(got), shardIDs(ls)) {
		s.Errorf("the shards are %v", shardIDs(got))
	}
}

// shardTakenWhileWaits checks that a progress that waits for a rival's mark stores nothing if its shard is
// taken over meanwhile.
func (s *suite[TTx]) shardTakenWhileWaits() {
	if !s.can.Rivals {
		s.Skip("one writer at a time")
	}
	s.insert(message("a", 1))
	tip := s.tick("")
	for i, report := range []func(m store.Mark, p store.Progress) error{
		func(m store.Mark, p store.Progress) error {
			stored, err := s.d.Apply(s.Context(), store.Effect{Mark: &m, Shard: &p})
			if err == nil && !stored[0] {
				return store.ErrLost
			}
			return err
		},
		func(m store.Mark, p store.Progress) error {
			return s.begin(s.d, store.Intake{Wait: patience}).Commit(s.Context(), progress(p),
				store.Effect{Mark: &m})
		},
	} {
		session := fmt.Sprint("next-", i)
		l, m := s.shard0(fmt.Sprint("former-", i)), mark()
		holder := s.begin(s.db.Driver(s), intake(m))
		p := progressOf(l)
		p.Cursor = &store.Cursor{Tip: tip, Seq: int64(i + 1)}
		var err error
		waiting := meanwhile(func() { err = report(m, p) })
		s.wantBlocked(waiting, "progress with a mark in a rival's hand")
		var got []store.Shard
		taking := meanwhile(func() { got = s.lease(s.db.Driver(s), "one", session) })
		s.wantBlocked(waiting, "progress with a mark in a rival's hand")
		s.rollback(holder)
		s.comes(waiting, "the progress")
		s.comes(taking, "the takeover")
		if err != nil && !errors.Is(err, store.ErrLost) && !s.d.Outage(err) {
			s.Errorf("the progress: %v", err)
		}
		if now := s.shard0(session); now != got[0] {
			s.Errorf("the new owner took %+v over, and has %+v now", got[0], now)
		}
	}
}
