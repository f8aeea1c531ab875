package storetest

import (
	"time"

	"github.com/skald-go/skald/store"
)

// parkedReleasedIfDead checks that Requeue with Dead changes only dead letters, and loses no guard for
// others.
func (s *suite[TTx]) parkedReleasedIfDead() {
	dead, later, none := parked("k", 1), parked("l", 2), parked("m", 3)
	dead.Dead, later.Due = &store.Death{At: time.Now(), Kind: "permanent", BlocksKey: true}, time.Hour
	s.apply(keeping(dead, later)...)
	for _, p := range []store.Parked{dead, later, none} {
		e := released(p)
		e.Requeue.Dead, e.Rows = true, rows(message("a", 1)).Rows
		s.apply(e)
	}
	s.wantCounts(3, 0, 0)
	s.claim(0, "1")
}

// parkedReleasedOnce checks that a dead letter which was released and died again does not match the dead
// letter that was read. A parked message does not match it, either.
func (s *suite[TTx]) parkedReleasedOnce() {
	p := parked("k", 1)
	p.Dead = &store.Death{At: time.Now(), Kind: "permanent", BlocksKey: true}
	s.apply(keeping(p)...)
	read := func() store.Parked { return s.kept(store.ParkedQuery{Identity: &p.Identity})[0] }
	as := func(p store.Parked) store.Effect {
		e := released(p)
		e.Requeue.DeadAt = p.Dead.At
		return e
	}
	first := read()
	s.applied([]bool{true}, as(first))
	s.applied([]bool{false}, as(first))
	s.apply(parkAgain(read(), func(p *store.Parked) {
		p.Dead = &store.Death{At: first.Dead.At.Add(time.Second), Kind: "permanent", BlocksKey: true}
	}))
	s.applied([]bool{false}, as(first))
	late, none := released(p), 0
	late.Requeue.Attempts = &none // it was parked when it was read
	s.applied([]bool{false}, late)
	s.applied([]bool{true}, as(read()))
	s.applied([]bool{true}, late)
	more := 1
	late.Requeue.Attempts = &more
	s.applied([]bool{false}, late) // another operator released it
	s.apply(parkAgain(read(), func(p *store.Parked) { p.Attempts = 2 }))
	s.applied([]bool{true}, late) // it failed once more
}
