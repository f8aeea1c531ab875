package storetest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/skald-go/skald/store"
)

// lane0 asks again for the lanes and gives the first.
func (s *suite[TTx]) lane0(life string) store.Lane {
	s.Helper()
	return s.lease(s.db.Driver(s), "one", life)[0]
}

func (s *suite[TTx]) laneProgress() {
	l := s.lane0("1")
	s.say(message("a", 1))
	first := s.tick("")
	s.say(message("a", 2))
	second := s.tick(first)
	for _, c := range []store.Cursor{
		{Tip: first}, {Tip: first, Seq: 1}, {Base: first}, {Base: first, Tip: second, Seq: 1 << 40}, {Base: second, Tip: second, Seq: 3}, {},
	} {
		p := under(l)
		p.Cursor = &c
		s.apply(progress(p))
		if got := s.lane0("1"); got.Cursor != c || got.Epoch != l.Epoch || got.Token != l.Token {
			s.Fatalf("the cursor %+v is stored as %+v", c, got)
		}
	}
}

// What a progress does not name stays as it is.
func (s *suite[TTx]) laneProgressOfOne() {
	l := s.lane0("1")
	s.say(message("a", 1))
	c := store.Cursor{Base: s.tick(""), Seq: 4}
	for _, step := range []struct {
		p    func(*store.Progress)
		want store.Lane
	}{
		{func(p *store.Progress) { p.Incarnation = new("größe ☃") }, store.Lane{Incarnation: "größe ☃"}},
		{func(p *store.Progress) { p.Cursor = &c }, store.Lane{Incarnation: "größe ☃", Cursor: c}},
		{func(*store.Progress) {}, store.Lane{Incarnation: "größe ☃", Cursor: c}},
		{func(p *store.Progress) { p.Incarnation = new("") }, store.Lane{Cursor: c}},
		{func(p *store.Progress) { p.Incarnation, p.Cursor = new("x"), &store.Cursor{} }, store.Lane{Incarnation: "x"}},
	} {
		p := under(l)
		step.p(&p)
		s.apply(progress(p))
		if got := s.lane0("1"); got.Incarnation != step.want.Incarnation || got.Cursor != step.want.Cursor {
			s.Fatalf("the lane is %+v, want %+v", got, step.want)
		}
	}
}

// An owner that lost its lane stores nothing of it: no cursor, no incarnation, no row set aside or freed.
func (s *suite[TTx]) laneStaleProgress() {
	aside, other := s.sayOne(message("a", 1)), s.sayOne(message("b", 2))
	s.setAside(store.Aside{Row: aside, Attempts: 1})
	l := s.laneOf(aside)
	s.lanes = s.lease(s.d, suiteOwner, "2")
	for name, p := range map[string]store.Progress{
		"epoch of before": {Lane: l.ID, Epoch: l.Epoch, Token: s.laneOf(aside).Token},
		"token of before": {Lane: l.ID, Epoch: s.laneOf(aside).Epoch, Token: l.Token},
		"both":            under(l),
		"no token":        {Lane: l.ID, Epoch: s.laneOf(aside).Epoch},
	} {
		p.Cursor, p.Incarnation = &store.Cursor{Base: s.tick("")}, new("stale")
		p.Aside, p.Freed = []store.Aside{{Row: other}}, []int64{aside.Seq}
		s.applied([]bool{false}, progress(p))
		s.is(s.begin(s.d, store.Intake{}).Commit(s.Context(), progress(p)), store.ErrLost, name)
	}
	s.counts(2, 0, 1)
	if got := s.retry(10); len(got) != 1 || got[0].ID != aside.ID {
		s.Errorf("a stale owner changed what is set aside to %+v", got)
	}
	for _, l := range s.lease(s.d, suiteOwner, "2") {
		if l.Cursor != (store.Cursor{}) || l.Incarnation != "" {
			s.Errorf("a stale owner changed lane %d to %+v", l.ID, l)
		}
	}
}

// One call carries the progress of many lanes, each for itself.
func (s *suite[TTx]) laneManyProgresses() {
	ls := s.lease(s.d, "one", "1")
	s.say(message("a", 1))
	c := store.Cursor{Base: s.tick(""), Seq: 9}
	var es []store.Effect
	var want []bool
	for i, l := range ls {
		p := under(l)
		p.Cursor = &c
		if i%3 == 1 {
			p.Epoch--
		}
		es, want = append(es, progress(p)), append(want, i%3 != 1)
	}
	s.applied(want, es...)
	for i, l := range s.lease(s.d, "one", "1") {
		if got := l.Cursor == c; got != want[i] {
			s.Errorf("lane %d has the cursor %+v", l.ID, l.Cursor)
		}
	}
}

// Two reports of one lane in one call are carried out in order.
func (s *suite[TTx]) laneCursorOfAll() {
	l := s.lane0("1")
	s.say(message("a", 1))
	tip := s.tick("")
	var es []store.Effect
	for seq := range int64(5) {
		p := under(l)
		p.Cursor = &store.Cursor{Tip: tip, Seq: seq + 1}
		es = append(es, progress(p))
	}
	s.apply(es...)
	if got := s.lane0("1").Cursor.Seq; got != 5 {
		s.Errorf("after 1 to 5 the cursor is at %d", got)
	}
}

func (s *suite[TTx]) laneLostInWholeUnit() {
	ls := s.lease(s.d, "one", "1")
	good, bad := under(ls[0]), under(ls[1])
	good.Incarnation, bad.Incarnation = new("b"), new("b")
	bad.Token += "x"
	s.is(s.begin(s.d, store.Intake{}).Commit(s.Context(), progress(good), progress(bad)), store.ErrLost, "commit")
	if got := s.lease(s.d, "one", "1"); got[0].Incarnation != "" || got[1].Incarnation != "" {
		s.Error("a unit that lost stored an incarnation")
	}
	if got := s.lease(s.d, "one", "1"); !slices.Equal(laneIDs(got), laneIDs(ls)) {
		s.Errorf("the lanes are %v", laneIDs(got))
	}
}

// Progress that waits for a rival's mark while its lane is taken over stores nothing under the new owner.
func (s *suite[TTx]) laneTakenWhileWaits() {
	if !s.can.Rivals {
		s.Skip("one writer at a time")
	}
	s.say(message("a", 1))
	tip := s.tick("")
	for i, report := range []func(m store.Mark, p store.Progress) error{
		func(m store.Mark, p store.Progress) error {
			stood, err := s.d.Apply(s.Context(), store.Effect{Mark: &m, Lane: &p})
			if err == nil && !stood[0] {
				return store.ErrLost
			}
			return err
		},
		func(m store.Mark, p store.Progress) error {
			return s.begin(s.d, store.Intake{Wait: patience}).Commit(s.Context(), progress(p), store.Effect{Mark: &m})
		},
	} {
		life := fmt.Sprint("next-", i)
		l, m := s.lane0(fmt.Sprint("former-", i)), mark()
		holder := s.begin(s.db.Driver(s), intake(m))
		p := under(l)
		p.Cursor = &store.Cursor{Tip: tip, Seq: int64(i + 1)}
		var err error
		waiting := meanwhile(func() { err = report(m, p) })
		s.waits(waiting, "progress with a mark in a rival's hand")
		var got []store.Lane
		taking := meanwhile(func() { got = s.lease(s.db.Driver(s), "one", life) })
		s.waits(waiting, "progress with a mark in a rival's hand")
		s.rollback(holder)
		s.comes(waiting, "the progress")
		s.comes(taking, "the takeover")
		if err != nil && !errors.Is(err, store.ErrLost) && !s.d.Outage(err) {
			s.Errorf("the progress: %v", err)
		}
		if now := s.lane0(life); now != got[0] {
			s.Errorf("the new owner took %+v over, and has %+v now", got[0], now)
		}
	}
}
