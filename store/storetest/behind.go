package storetest

import (
	"fmt"

	"github.com/skald-go/skald/store"
)

// planCall returns the effect that plans a call of p.
func planCall(p store.Parked) store.Effect {
	return parkAgain(p, func(p *store.Parked) { p.Call = &store.Call{Key: "key", Request: "{}"} })
}

// parkedBehindACall checks that a dead letter that did not block its key goes to the end of the key when it
// is redriven or replaced, if a later message has an external call. So no message before the message with the
// call can wait for that call.
func (s *suite[TTx]) parkedBehindACall() {
	for n, back := range map[string]func(p store.Parked) (instead store.Parked, e store.Effect){
		"released": func(p store.Parked) (store.Parked, store.Effect) { return p, released(p) },
		"released, since it is dead": func(p store.Parked) (store.Parked, store.Effect) {
			e := released(p)
			e.Requeue.Dead = true
			return p, e
		},
		"replaced": func(p store.Parked) (store.Parked, store.Effect) {
			with := parked(string(p.Message.Key), 1)
			with.Attempts = 0
			return with, store.Effect{Park: &store.Park{Parked: with, Instead: &p.Identity}}
		},
	} {
		dead, calling, waits := parked(n, 1), parked(n, 2), parked(n, 3)
		dead.Dead = &store.Death{Kind: "attempts"}
		s.apply(keeping(dead, calling)...)
		s.apply(planCall(calling))
		calling.Call = &store.Call{Key: "key"}
		s.apply(keeping(waits)...)
		dead, e := back(dead)
		s.apply(e)
		s.claim(0, "2")
		s.wantOutcome(retrying(calling), store.Fresh)
		s.apply(freed(calling, nil))
		s.claim(0, "3")
		s.apply(freed(waits, nil))
		s.claim(0, "1")
		s.apply(freed(dead, nil))
	}
	// The message with the call may be a dead letter, too: both are redriven.
	first, calling := parked("k", 1), parked("k", 2)
	first.Dead = &store.Death{Kind: "attempts"}
	s.apply(keeping(first, calling)...)
	s.apply(planCall(calling))
	calling.Call = &store.Call{Key: "key"}
	s.apply(parkAgain(calling,
		func(p *store.Parked) { p.Call, p.Dead = &store.Call{Key: "key"}, &store.Death{Kind: "attempts"} }))
	s.apply(released(first))
	s.claim(0, "1")
	s.apply(released(calling))
	s.claim(0, "2")
	s.apply(freed(calling, nil), freed(first, nil))
	// A message without a call, of another key, or before the dead letter has no influence.
	dead, none := parked("k", 3), parked("k", 4)
	other, before := parked("l", 5), parked("k", 6)
	dead.Dead, before.Dead = &store.Death{Kind: "attempts"}, &store.Death{Kind: "attempts"}
	before.Call, other.Call = &store.Call{Key: "key"}, &store.Call{Key: "key"}
	s.apply(keeping(before, dead, none, other)...)
	s.apply(released(dead))
	s.claim(0, "3", "5")
}

// parkedCallOfTheFirst checks that a message gets no external call if it is no longer the first of its key,
// because a dead letter blocks the key again. Otherwise the message and the letter could wait for each other.
func (s *suite[TTx]) parkedCallOfTheFirst() {
	dead, claimed := parked("k", 1), parked("k", 2)
	dead.Dead = &store.Death{Kind: "attempts"}
	s.apply(keeping(dead, claimed)...)
	s.claim(0, "2")
	s.apply(released(dead))
	s.applied([]bool{false}, planCall(claimed))
	s.apply(parkAgain(claimed, func(p *store.Parked) { p.Attempts = 0 }))
	claimed.Attempts = 0
	s.claim(0, "1")
	s.apply(freed(dead, nil))
	s.claim(0, "2")
	s.apply(planCall(claimed))
	if got := s.kept(store.ParkedQuery{Consumer: consumer}); len(got) != 1 || got[0].Call == nil {
		s.Errorf("kept %+v", got)
	}
}

// parkedOldNumbers checks that a dead letter that blocks its key again counts as parked, even after other
// messages of the key were parked and finished.
func (s *suite[TTx]) parkedOldNumbers() {
	a, b, c := parked("k", 1), parked("k", 2), parked("k", 3)
	s.apply(keeping(a, b)...)
	s.apply(parkAgain(b, func(p *store.Parked) { p.Dead = &store.Death{Kind: "attempts"} }), freed(a, nil))
	s.apply(keeping(c)...)
	s.apply(released(b))
	for n, full := range []store.Park{{MostRows: 1}, {MostBytes: 1}} {
		full.Parked = parked("k", 4+n)
		s.applied([]bool{false}, store.Effect{Park: &full})
	}
}

// parkedBarredDeath checks that a dead letter whose step is barred blocks no other message, even if the
// step was barred just before.
func (s *suite[TTx]) parkedBarredDeath() {
	dies := func(p store.Parked, saga string) store.Effect {
		step := taking(saga)
		step.Identity = p.Identity
		p.Dead = &store.Death{Kind: "attempts", BlocksKey: true}
		return store.Effect{Park: &store.Park{Parked: p, Step: &step}}
	}
	for n, saga := range []string{"barred", "undone"} {
		key := fmt.Sprint("k", n)
		if saga == "undone" {
			s.step(taking(saga), store.StepAbsent)
			s.step(undoing(saga), store.StepDone)
		} else {
			s.step(undoing(saga), store.StepAbsent)
		}
		s.apply(dies(parked(key, 1), saga)) // a message that was not parked before
		s.wantOutcome(arriving(parked(key, 2)), store.Fresh)
		claimed, waits := parked(key, 3), parked(key, 4)
		s.apply(keeping(claimed, waits)...)
		e := dies(claimed, saga)
		e.Park.Was = &claimed.Attempts
		s.apply(e)
		s.claim(0, "4")
		s.wantOutcome(retrying(waits), store.Fresh)
		s.apply(freed(waits, nil))
		yes := true
		for _, p := range s.kept(store.ParkedQuery{Dead: &yes, Key: []byte(key)}) {
			if p.Dead.BlocksKey {
				s.Errorf("its step is %s, and it holds its key: %+v", saga, p)
			}
		}
	}
	s.apply(dies(parked("l", 5), "free"))
	s.wantOutcome(arriving(parked("l", 6)), store.Behind)
	s.wantStep(taking("free"), store.StepDead)
}
