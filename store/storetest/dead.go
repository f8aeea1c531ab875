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
	s.apply(again(a, func(p *store.Parked) { p.Dead = &store.Death{Kind: "attempts", Fingerprint: "f"} }))
	s.claim(0, "2")
	s.stands(arriving(a), store.Dead)
	s.stands(retrying(a), store.Stale)
	s.stands(retrying(b), store.Fresh)
	s.apply(freed(b, nil))
	s.stands(arriving(parked("k", 3)), store.Fresh)
}

func (s *suite[TTx]) parkedDeathHoldsTheKey() {
	a, b := parked("k", 1), parked("k", 2)
	s.apply(keeping(a, b)...)
	s.apply(again(a, func(p *store.Parked) { p.Dead = &store.Death{Holds: true} }))
	s.claim(0)
	s.stands(retrying(b), store.Stale)
	s.stands(arriving(parked("k", 3)), store.Behind)
	n, err := s.d.Keeping(s.Context(), consumer)
	s.ok(err, "count")
	if n.Dead != 1 || n.Parked != 1 || n.Bytes != int64(len("k")+len(b.Message.Data)) {
		s.Errorf("counted %+v", n)
	}
	s.apply(freed(a, nil))
	s.claim(0, "2")
}

func (s *suite[TTx]) parkedReleased() {
	a, b := parked("k", 1), parked("k", 2)
	a.Attempts, a.Dead = 25, &store.Death{Kind: "attempts"}
	s.apply(keeping(a, b)...)
	s.claim(0, "2")
	s.apply(released(a)) // before b, where it was
	got := s.claim(0, "1")
	if got[0].Attempts != 0 || got[0].Dead != nil || got[0].Last != a.Last {
		s.Errorf("released as %+v", got[0])
	}
	s.stands(retrying(b), store.Stale)
	a.Attempts, a.Dead = 0, nil
	s.stands(retrying(a), store.Fresh)
	s.apply(freed(a, nil))
	s.claim(0, "2")
	late := parked("l", 3)
	late.Due = time.Hour
	s.apply(keeping(late)...)
	s.apply(released(late))
	s.claim(0, "2", "3")
}

// A message that is dropped is finished: if it comes again, nobody runs it.
func (s *suite[TTx]) parkedDropped() {
	a, b := parked("k", 1), parked("k", 2)
	s.apply(keeping(a, b)...)
	m := arriving(a)
	m.Turn, m.As, m.Reason = store.Anytime, store.Rejected, "dropped"
	drop := freed(a, nil)
	drop.Mark = &m
	drop.Audit = &store.Audit{Who: "ann", Why: "not ours", What: "drop", Consumer: consumer, Identity: a.Identity}
	drop.Rows = []skald.Message{message("k", 3)}
	s.applied([]bool{true, false}, drop, drop)
	if got := s.db.Count(s); got != (Counts{Rows: 1, Marks: 1, Audits: 1}) {
		s.Errorf("the database has %+v", got)
	}
	s.stands(arriving(a), store.Rejected)
	s.claim(0, "2")
}

func (s *suite[TTx]) parkedListed() {
	a, b, c := parked("k", 1), parked("k", 2), parked("", 3)
	b.Attempts = 0
	c.Dead = &store.Death{Fingerprint: "f"}
	other := parked("k", 4)
	other.Consumer = "another"
	s.apply(keeping(a, b, c, other)...)
	yes, no := true, false
	for what, want := range map[*store.Sought][]string{
		{}:                              {"1", "2", "3", "4"},
		{Consumer: consumer}:            {"1", "2", "3"},
		{Identity: &b.Identity}:         {"2"},
		{Key: []byte("k")}:              {"1", "2", "4"},
		{Fingerprint: "f"}:              {"3"},
		{Fingerprint: "g"}:              nil,
		{Dead: &yes}:                    {"3"},
		{Dead: &no, Consumer: consumer}: {"1", "2"},
		{Failed: true, Dead: &no}:       {"1", "4"},
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
	page, err := s.d.Kept(s.Context(), store.Sought{}, 2)
	s.ok(err, "list")
	if len(page) != 2 || page[0].Waiting || !page[1].Waiting {
		s.Fatalf("a page of two is %+v", page)
	}
	if rest := s.kept(store.Sought{After: page[1].Place}); len(rest) != 2 || rest[0].ID != c.ID {
		s.Errorf("behind it %+v", rest)
	}
}

func (s *suite[TTx]) parkedAllOrNothing() {
	a, b := parked("k", 1), parked("k", 2)
	s.apply(keeping(a)...)
	m := arriving(parked("l", 3))
	s.commit(s.begin(s.d, intake(m)))
	e := keeping(b)[0]
	e.Mark, e.Audit, e.Rows = &m, &store.Audit{What: "x"}, []skald.Message{message("k", 1)}
	s.applied([]bool{false}, e) // the mark is there
	f := freed(b, nil)
	f.Audit = &store.Audit{What: "x"}
	s.applied([]bool{false}, f)
	u := s.begin(s.d, store.Intake{})
	s.is(u.Commit(s.Context(), freed(a, nil), freed(b, nil)), store.ErrLost, "free what is not kept")
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
