package storetest

import (
	"time"

	"github.com/skald-go/skald/store"
)

// asRead returns p with some fields of stored: those that drivers set when they read a message.
func asRead(p, stored store.Parked) store.Parked {
	p.Since, p.Place, p.Message = stored.Since, stored.Place, stored.Message
	if p.Call != nil && stored.Call != nil {
		call := *p.Call
		call.Age = stored.Call.Age
		p.Call = &call
	}
	return p
}

// parkedAgeOfACall checks that the time and the age of a call are from the store's clock, not from the
// clocks of processes.
func (s *suite[TTx]) parkedAgeOfACall() {
	a := parked("k", 1)
	a.Call = &store.Call{Key: "outside", Request: "{}", Age: time.Hour} // drivers ignore the caller's age
	s.apply(keeping(a)...)
	read := func() store.Call {
		s.Helper()
		all := s.kept(store.ParkedQuery{Identity: &a.Identity})
		if len(all) != 1 || all[0].Call == nil {
			s.Fatalf("kept %+v", all)
		}
		return *all[0].Call
	}
	young := func(c store.Call) bool { return c.Age >= 0 && c.Age < time.Minute }
	first := read()
	if !young(first) || time.Since(first.Since).Abs() > time.Hour {
		s.Errorf("stored now, it is of %v, %v old", first.Since, first.Age)
	}
	// The process that stored the call stores it again with its outcome, and without its time.
	s.apply(parkAgain(a,
		func(p *store.Parked) { p.Call = &store.Call{Key: "outside", Request: "{}", Outcome: "{}"} }))
	if c := read(); !c.Since.Equal(first.Since) || c.Outcome != "{}" || c.Age < first.Age {
		s.Errorf("kept again it is of %v, %v old, and was of %v", c.Since, c.Age, first.Since)
	}
	// A time that was read is stored unchanged.
	long := first
	long.Since = first.Since.Add(-3 * time.Hour)
	s.apply(parkAgain(a, func(p *store.Parked) { p.Call = &long }))
	if c := read(); !c.Since.Equal(long.Since) || c.Age < 3*time.Hour || c.Age > 4*time.Hour {
		s.Errorf("of three hours ago it is of %v, %v old", c.Since, c.Age)
	}
	if c := s.claim(time.Hour, "1")[0].Call; c == nil || c.Age < 3*time.Hour || !c.Since.Equal(long.Since) {
		s.Errorf("claimed: %+v", c)
	}
	// A call that is planned later starts then.
	b := parked("l", 1)
	s.apply(keeping(b)...)
	s.apply(parkAgain(b, func(p *store.Parked) { p.Call = &store.Call{Key: "other", Request: "{}"} }))
	a = b
	if c := read(); !young(c) || c.Key != "other" {
		s.Errorf("intended at last: %+v", c)
	}
}
