package storetest

import (
	"slices"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

func (s *suite[TTx]) parkedDeathFreesTheKey() {
	a, b := parked("k", 1), parked("k", 2)
	s.apply(keeping(a, b)...)
	s.apply(parkAgain(a, func(p *store.Parked) { p.Dead = &store.Death{Kind: "attempts", Fingerprint: "f"} }))
	s.claim(0, "2")
	s.wantOutcome(arriving(a), store.Dead)
	s.wantOutcome(retrying(a), store.Stale)
	s.wantOutcome(retrying(b), store.Fresh)
	s.apply(freed(b, nil))
	s.wantOutcome(arriving(parked("k", 3)), store.Fresh)
}

func (s *suite[TTx]) parkedDeathHoldsTheKey() {
	a, b := parked("k", 1), parked("k", 2)
	s.apply(keeping(a, b)...)
	s.apply(parkAgain(a, func(p *store.Parked) { p.Dead = &store.Death{BlocksKey: true} }))
	s.claim(0)
	s.wantOutcome(retrying(b), store.Stale)
	s.wantOutcome(arriving(parked("k", 3)), store.Behind)
	status, err := s.d.Status(s.Context(), store.StatusQuery{ParkedOf: consumer})
	s.ok(err, "count")
	n := status.Parked
	if n.Dead != 1 || n.Parked != 1 || n.Bytes != int64(len("k")+len(b.Message.Data)) {
		s.Errorf("counted %+v", n)
	}
	s.apply(freed(a, nil))
	s.claim(0, "2")
}

func (s *suite[TTx]) parkedReleased() {
	a, b := parked("k", 1), parked("k", 2)
	a.Attempts, a.Dead, a.Call = 25, &store.Death{Kind: "attempts"},
		&store.Call{Key: "outside", Request: "{}", Since: time.UnixMicro(1).UTC()}
	a.First = store.Failure{At: time.UnixMicro(1).UTC(), Why: "first", Host: "h"}
	s.apply(keeping(a, b)...)
	s.claim(0, "2")
	s.apply(released(a)) // before b, at its old place
	got := s.claim(0, "1")
	if got[0].Attempts != 0 || got[0].Dead != nil || got[0].Last != a.Last || got[0].Call == nil ||
		*got[0].Call != *asRead(a, got[0]).Call {
		s.Errorf("released as %+v", got[0])
	}
	if f := got[0].First; f.Why != "first" || f.Host != "h" || !f.At.After(a.First.At) {
		s.Errorf("its age counts from %+v", f)
	}
	s.wantOutcome(retrying(b), store.Stale)
	a.Attempts, a.Dead = 0, nil
	s.wantOutcome(retrying(a), store.Fresh)
	s.apply(freed(a, nil))
	s.claim(0, "2")
	late := parked("l", 3)
	late.Due = time.Hour
	s.apply(keeping(late)...)
	s.apply(released(late))
	s.claim(0, "2", "3")
}

// parkedDropped checks that a dropped message is finished: a repeat of it is not handled.
func (s *suite[TTx]) parkedDropped() {
	a, b := parked("k", 1), parked("k", 2)
	s.apply(keeping(a, b)...)
	m := arriving(a)
	m.KeyOrder, m.Outcome, m.Reason = store.Anytime, store.Rejected, "dropped"
	drop := freed(a, nil)
	drop.Mark = &m
	drop.Audit = &store.Audit{Author: "ann", Reason: "not ours", Action: "drop", Consumer: consumer,
		Identity: a.Identity}
	drop.Rows = []skald.Message{message("k", 3)}
	s.applied([]bool{true, false}, drop, drop)
	if got := s.db.Count(s); got != (Counts{Rows: 1, Marks: 1, Audits: 1}) {
		s.Errorf("the database has %+v", got)
	}
	s.wantOutcome(arriving(a), store.Rejected)
	s.claim(0, "2")
	// A dead letter that was redriven meanwhile is not dropped.
	dead := parked("l", 4)
	died := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	dead.Dead = &store.Death{At: died, BlocksKey: true}
	s.apply(keeping(dead)...)
	drop = freed(dead, nil)
	drop.Finish.DeadAt = died
	s.apply(released(dead))
	s.applied([]bool{false}, drop)
	dead.Attempts, dead.Dead.At = 0, died.Add(time.Second)
	s.apply(parkAgain(dead, func(p *store.Parked) { p.Attempts = 2 })) // and died again
	s.applied([]bool{false}, drop)
	drop.Finish.DeadAt = dead.Dead.At
	s.apply(drop)
}

func (s *suite[TTx]) parkedListed() {
	a, b, c := parked("k", 1), parked("k", 2), parked("", 3)
	b.Attempts, b.Call = 0, &store.Call{Key: "outside", Request: "{}"}
	c.Dead = &store.Death{Fingerprint: "f"}
	other := parked("k", 4)
	other.Consumer = "another"
	s.apply(keeping(a, b, c, other)...)
	yes, no := true, false
	for what, want := range map[*store.ParkedQuery][]string{
		{}:                              {"1", "2", "3", "4"},
		{Consumer: consumer}:            {"1", "2", "3"},
		{Identity: &b.Identity}:         {"2"},
		{Key: []byte("k")}:              {"1", "2", "4"},
		{Fingerprint: "f"}:              {"3"},
		{Fingerprint: "g"}:              nil,
		{Dead: &yes}:                    {"3"},
		{Dead: &no, Consumer: consumer}: {"1", "2"},
		{Failed: true, Dead: &no}:       {"1", "4"},
		{Calling: true}:                 {"2"},
		{Consumer: consumer, Bare: true, Key: []byte("k")}: {"1", "2"},
	} {
		var got []string
		for _, p := range s.kept(*what) {
			got = append(got, p.Message.Subject)
			if what.Bare == (p.Message.Data != nil) {
				s.Errorf("%+v lists data %q", what, p.Message.Data)
			}
		}
		if !slices.Equal(got, want) {
			s.Errorf("%+v lists %v, want %v", what, got, want)
		}
	}
	page, err := store.ListParked(s.Context(), s.d, store.ParkedQuery{Limit: 2})
	s.ok(err, "list")
	if len(page) != 2 || page[0].Waiting || !page[1].Waiting {
		s.Fatalf("a page of two is %+v", page)
	}
	if rest := s.kept(store.ParkedQuery{After: page[1].Place}); len(rest) != 2 || rest[0].ID != c.ID {
		s.Errorf("behind it %+v", rest)
	}
}

func (s *suite[TTx]) parkedAllOrNothing() {
	a, b := parked("k", 1), parked("k", 2)
	s.apply(keeping(a)...)
	m := arriving(parked("l", 3))
	s.commit(s.begin(s.d, intake(m)))
	e := keeping(b)[0]
	e.Mark, e.Audit, e.Rows = &m, &store.Audit{Action: "x"}, []skald.Message{message("k", 1)}
	s.applied([]bool{false}, e) // the mark exists
	f := freed(b, nil)
	f.Audit = &store.Audit{Action: "x"}
	s.applied([]bool{false}, f)
	u := s.begin(s.d, store.Intake{})
	s.wantError(u.Commit(s.Context(), freed(a, nil), freed(b, nil)), store.ErrLost, "free what is not kept")
	if got := s.db.Count(s); got != (Counts{Marks: 1}) {
		s.Errorf("the database has %+v", got)
	}
	s.claim(0, "1")
	tx := s.db.Begin(s)
	for _, e := range []store.Effect{keeping(b)[0], released(a), freed(a, nil), {Audit: &store.Audit{}}} {
		if s.d.Write(s.Context(), tx, e) == nil {
			s.Errorf("%+v is written in the caller's transaction", e)
		}
	}
	s.ok(s.db.Rollback(tx), "roll back")
}

// parkedReplaced checks that a message replaces a parked one, which is then finished.
func (s *suite[TTx]) parkedReplaced() {
	a, b, free := parked("k", 1), parked("k", 2), parked("", 3)
	a.Attempts, a.Dead = 25, &store.Death{Kind: "attempts", Fingerprint: "f", BlocksKey: true}
	s.apply(keeping(a, b, free)...)
	replace := func(old, with store.Parked) store.Effect {
		m := arriving(old)
		m.KeyOrder, m.Outcome, m.Reason = store.Anytime, store.Rejected, "edited"
		return store.Effect{Mark: &m, Park: &store.Park{Parked: with, Instead: &old.Identity, MostRows: 1}}
	}
	c, d := parked("k", 4), parked("", 5)
	c.Attempts, d.Attempts = 0, 0
	s.applied([]bool{true, false, true, false}, replace(a, c), replace(a, parked("k", 6)), replace(free, d),
		replace(parked("k", 7), parked("k", 8)))
	s.wantOutcome(arriving(a), store.Rejected)
	s.wantOutcome(arriving(free), store.Rejected)
	s.wantOutcome(arriving(parked("k", 9)), store.Behind)
	got := s.claim(0, "4", "5") // before 2, at the place of the first
	if i := slices.IndexFunc(got, func(p store.Parked) bool { return p.Identity == c.Identity }); i < 0 ||
		got[i].Dead != nil || got[i].Attempts != 0 {
		s.Errorf("replaced by %+v", got)
	}
	i := slices.IndexFunc(got, func(p store.Parked) bool { return p.Identity == d.Identity })
	for _, diff := range differences(got[i].Message, d.Message) {
		s.Error(diff)
	}
	s.wantOutcome(retrying(c), store.Fresh)
	s.wantOutcome(retrying(d), store.Fresh)
	s.wantOutcome(retrying(b), store.Stale)
	finished := parked("k", 10)
	done := arriving(finished)
	done.KeyOrder = store.Anytime
	s.commit(s.begin(s.d, intake(done)))
	s.applied([]bool{false}, replace(c, finished)) // it is finished
	s.apply(freed(c, nil))
	s.claim(0, "2", "5")
	s.apply(parkAgain(d, func(p *store.Parked) { p.Call = &store.Call{Key: "key", Request: "{}"} }))
	s.applied([]bool{false}, replace(d, parked("", 11))) // it would lose the call
	e, f := parked("k", 12), parked("k", 13)
	s.apply(keeping(e, f)...)
	s.applied([]bool{false}, replace(e, f)) // it is parked itself
	s.wantOutcome(arriving(e), store.Waiting)
}

// parkedFinished checks that a message which the same transaction finishes is not parked by it.
func (s *suite[TTx]) parkedFinished() {
	for _, key := range []string{"", "k"} {
		p := parked(key, 1)
		u := s.begin(s.d, intake(arriving(p)))
		s.wantError(u.Commit(s.Context(), keeping(p)...), store.ErrLost, "park what is finished")
		m := arriving(p)
		keep := keeping(p)[0]
		keep.Mark = &m
		s.applied([]bool{false}, keep)
		s.wantOutcome(arriving(p), store.Fresh)
	}
}

// parkedMarked checks that a rejection may also become a dead letter: its mark stays and has the answer.
func (s *suite[TTx]) parkedMarked() {
	a, b := parked("k", 1), parked("k", 2)
	a.Dead = &store.Death{Kind: "rejected"}
	m := arriving(a)
	m.Outcome, m.Reason = store.Rejected, "no"
	no := store.Effect{Mark: &m, Park: &store.Park{Parked: a, Marked: true}}
	s.applied([]bool{true, false}, no, no)
	s.wantOutcome(arriving(a), store.Rejected)
	s.wantOutcome(arriving(b), store.Fresh)
	s.apply(keeping(b)...)
	m = retrying(b) // a message that was parked before
	m.Outcome, m.Reason, m.Held = store.Rejected, "no", true
	was := b.Attempts
	b.Dead = &store.Death{Kind: "rejected", BlocksKey: true}
	s.apply(store.Effect{Mark: &m, Park: &store.Park{Parked: b, Was: &was}})
	s.wantOutcome(arriving(b), store.Rejected)
	s.wantOutcome(arriving(parked("k", 3)), store.Behind)
	yes := true
	if dead := s.kept(store.ParkedQuery{Dead: &yes}); len(dead) != 2 {
		s.Errorf("dead letters %+v", dead)
	}
	s.apply(freed(a, nil), freed(b, nil))
	s.wantOutcome(arriving(b), store.Rejected)
}

func (s *suite[TTx]) parkedAudited() {
	audit := func(what, run string) store.Effect {
		a := store.Audit{Author: "ann", Reason: "mended", Action: what, Run: run, Consumer: consumer,
			Identity: store.Identity{Source: "/orders", ID: what}}
		return store.Effect{Audit: &a}
	}
	s.apply(audit("a", "one"), audit("b", ""), audit("c", "two"), audit("d", "one"), audit("e", "one"))
	read := func(run string, after int64, limit int) []store.Audit {
		s.Helper()
		got, err := s.d.Audits(s.Context(), store.AuditQuery{Run: run, After: after, Limit: limit})
		s.ok(err, "read the audit")
		return got
	}
	got := read("one", 0, 2)
	if len(got) != 2 || got[0].Action != "a" || got[1].Action != "d" || got[0].Author != "ann" ||
		got[0].Reason != "mended" || got[0].Run != "one" ||
		got[0].Consumer != consumer || got[0].Identity != (store.Identity{Source: "/orders", ID: "a"}) ||
		got[0].At.IsZero() {
		s.Fatalf("the run has %+v", got)
	}
	if rest := read("one", got[1].Number, 10); len(rest) != 1 || rest[0].Action != "e" {
		s.Errorf("behind it %+v", rest)
	}
	if none := read("three", 0, 10); len(none) != 0 {
		s.Errorf("of a run that is none are %+v", none)
	}
	var all []store.Audit
	for _, limit := range []int{2, 10, 10} {
		before := int64(0)
		if n := len(all); n > 0 {
			before = all[n-1].Number
		}
		page, err := s.d.Audits(s.Context(), store.AuditQuery{Before: before, Limit: limit})
		s.ok(err, "read the audit")
		all = append(all, page...)
	}
	if len(all) != 5 || all[0].Action != "e" || all[1].Action != "d" || all[2].Run != "two" ||
		all[3].Run != "" || all[4].Action != "a" {
		s.Errorf("of any run, and none, the last first, are %+v", all)
	}
}

// parkedCallStays checks a decision by a caller that read the message before a call was planned, or during
// another call. The decision neither changes nor finishes the message.
func (s *suite[TTx]) parkedCallStays() {
	none := parked("k", 1)
	s.apply(keeping(none)...)
	for _, key := range []string{"a call's key \"ö\"", "bytes\xff\x00"} {
		at, other := none, none
		at.Call, other.Call = &store.Call{Key: key, Request: "{}"}, &store.Call{Key: "another"}
		s.apply(parkAgain(none, func(p *store.Parked) { p.Call = at.Call }))
		nothing := func(*store.Parked) {}
		s.applied([]bool{false, false, false, false}, parkAgain(none, nothing), parkAgain(other, nothing),
			freed(none, &none.Attempts), freed(other, &none.Attempts))
		got := s.kept(store.ParkedQuery{Identity: &none.Identity})
		if len(got) != 1 || got[0].Call == nil || got[0].Call.Key != key {
			s.Fatalf("kept %+v", got)
		}
		s.apply(parkAgain(got[0], func(p *store.Parked) { p.Call.Outcome = "{}" }))
		s.apply(parkAgain(at, func(p *store.Parked) { p.Call = nil }))
		s.applied([]bool{false, false}, parkAgain(at, nothing), freed(at, &none.Attempts))
	}
	for n, key := range []string{"", "a call's key \"ö\"", "bytes\xff\x00"} {
		p := parked("l", 2+n)
		if key != "" {
			p.Call = &store.Call{Key: key, Request: "{}"}
		}
		s.apply(keeping(p)...)
		s.applied([]bool{true, false}, freed(p, &p.Attempts), freed(p, &p.Attempts))
	}
	loose := parked("m", 9) // without attempts, the call is not checked either
	loose.Call = &store.Call{Key: "key"}
	s.apply(keeping(loose)...)
	loose.Call = nil
	s.apply(freed(loose, nil))
}

// parkedHandedBack checks that a claimed message is due immediately if it is released unchanged, because the
// lease is not its due time.
func (s *suite[TTx]) parkedHandedBack() {
	s.apply(keeping(parked("k", 1), parked("k", 2))...)
	got, err := s.d.Claim(s.Context(), store.ClaimRequest{Consumer: consumer, Session: "life",
		ClaimSize: store.ClaimSize{Keys: 1, Prefetch: 1, PrefetchAll: 1}, Lease: time.Hour})
	s.ok(err, "claim")
	if len(got.Parked) != 2 {
		s.Fatalf("claimed are %+v", got.Parked)
	}
	for _, p := range got.Parked {
		s.apply(parkAgain(p, func(*store.Parked) {}))
	}
	s.claim(0, "1")
}

// parkedClaimedAs checks a decision by a caller that read the message before a claim, or before the answer to
// a claim. The decision does not overwrite the claim or the answer.
func (s *suite[TTx]) parkedClaimedAs() {
	p := parked("k", 1)
	p.Call = &store.Call{Key: "key", Request: "{}"}
	s.apply(keeping(p)...)
	read := func() store.Parked { return s.kept(store.ParkedQuery{Identity: &p.Identity})[0] }
	undo := func(p store.Parked) store.Effect {
		e, call := parkAgain(p, func(*store.Parked) {}), *p.Call
		call.Undo = true
		e.Park.Call, e.Park.WasClaim = &call, &store.Claim{Claims: p.Claims, Session: p.Session}
		return e
	}
	before := read()
	inHand := s.claim(time.Hour, "1")[0]
	s.applied([]bool{false}, undo(before))
	claimed := read()
	if claimed.Claims != 1 || claimed.Session == "" || claimed.Call.Undo {
		s.Fatalf("in hand it is %+v", claimed)
	}
	s.apply(parkAgain(inHand, func(p *store.Parked) {
		p.Call = &store.Call{Key: "key", Request: "{}", Outcome: "{}"}
		p.Claims, p.Session = 0, ""
	}))
	s.applied([]bool{false}, undo(claimed))
	s.applied([]bool{true}, undo(read()))
	if got := read(); got.Call.Outcome != "{}" || !got.Call.Undo {
		s.Fatalf("with its answer it is %+v at %+v", got, got.Call)
	}
}

func released(p store.Parked) store.Effect {
	return store.Effect{Requeue: &store.Requeue{Consumer: p.Consumer, Identity: p.Identity}}
}
