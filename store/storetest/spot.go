package storetest

import (
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

func spotTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"OccupyAndAdvance": (*suite[TTx]).spotOccupyAndAdvance,
		"AnotherOrigin":    (*suite[TTx]).spotAnotherOrigin,
		"Guards":           (*suite[TTx]).spotGuards,
		"Rewind":           (*suite[TTx]).spotRewind,
		"Claims":           (*suite[TTx]).spotClaims,
		"Suspects":         (*suite[TTx]).spotSuspects,
		"ClaimsOfTheDead":  (*suite[TTx]).spotClaimsOfTheDead,
		"InHandOfTheDead":  (*suite[TTx]).spotInHandOfTheDead,
	}
}

// spots wants the lanes of the consumer to stand so; when that was is left out.
func (s *suite[TTx]) spots(got store.Spots, want ...store.Spot) {
	s.Helper()
	for i := range got.Spots {
		if got.Spots[i].At.IsZero() {
			s.Errorf("%+v has no time", got.Spots[i])
		}
		got.Spots[i].At = time.Time{}
	}
	if !slices.Equal(got.Spots, want) {
		s.Errorf("the lanes stand as %+v, want %+v", got.Spots, want)
	}
}

func (s *suite[TTx]) spotted() store.Spots {
	s.Helper()
	all, err := s.d.Spots(s.Context(), consumer)
	s.ok(err, "read spots")
	return all
}

func (s *suite[TTx]) occupy(life, note string, lanes ...store.Spot) store.Spots {
	s.Helper()
	was, err := s.d.Occupy(s.Context(), consumer, life, note, lanes)
	s.ok(err, "occupy")
	return was
}

func (s *suite[TTx]) noteSpots(server, note string, lanes ...store.Spot) store.Spots {
	s.Helper()
	now, err := s.d.Advance(s.Context(), consumer, server, note, lanes)
	s.ok(err, "advance")
	return now
}

func (s *suite[TTx]) spotOccupyAndAdvance() {
	if was := s.spotted(); len(was.Spots) != 0 {
		s.Fatalf("there are %+v", was.Spots)
	}
	x, y := store.Spot{Lane: "t/0", Origin: "one", Position: -1}, store.Spot{Lane: "t/1", Origin: "one", Position: 7, Reach: 9}
	was := s.occupy("a", "a-1", y, x)
	s.spots(was)
	x.Life, x.Note, y.Life, y.Note = "a", "a-1", "a", "a-1"
	s.spots(s.spotted(), x, y)
	x.Position, x.Reach = 3, 1<<40
	got := s.noteSpots(was.Server, "a-2", x)
	x.Note = "a-2"
	s.spots(got, x, y)
	x.Life = ""
	s.noteSpots(was.Server, "a-3", x)
	x.Note = "a-3"
	s.spots(s.noteSpots(was.Server, "a-4"), x, y) // nothing is stored, and all is told
	s.spots(s.occupy("b", "b-1", store.Spot{Lane: "t/0", Origin: "one", Position: -1}), x, y)
	x.Life, x.Note = "b", "b-1"
	s.spots(s.spotted(), x, y)
	other, err := s.db.Driver(s).Spots(s.Context(), "another")
	if s.ok(err, "read spots"); len(other.Spots) != 0 {
		s.Errorf("another consumer stands at %+v", other)
	}
}

// What is stored of a topic that was made anew under its name does not hold.
func (s *suite[TTx]) spotAnotherOrigin() {
	old := store.Spot{Lane: "t/0", Origin: "old", Position: 100, Reach: 200}
	s.occupy("a", "1", old)
	old.Life, old.Note = "a", "1"
	next := store.Spot{Lane: "t/0", Origin: "new", Position: -1}
	s.spots(s.occupy("b", "2", next), old)
	next.Life, next.Note = "b", "2"
	s.spots(s.spotted(), next)
}

// Behind a life that did not leave in peace it is kept up to where something may have been in its hand; an answer tells how that
// stood before.
func (s *suite[TTx]) spotSuspects() {
	x := store.Spot{Lane: "t/0", Origin: "one", Position: 1, Reach: 2}
	server := s.occupy("a", "1", x).Server
	advance := func(life string, reach int64, was, note string) {
		s.noteSpots(server, note, store.Spot{Lane: x.Lane, Origin: x.Origin, Position: 1, Reach: reach, Life: life, Note: was})
	}
	suspect := func(life, note, origin string, want, then int64) {
		s.Helper()
		lane := x
		lane.Origin = origin
		if got := s.occupy(life, note, lane).Spots[0].Suspect; got != want {
			s.Errorf("%s is told of %d, want %d", life, got, want)
		}
		if got := s.spotted().Spots[0].Suspect; got != then {
			s.Errorf("behind %s stands %d, want %d", life, got, then)
		}
	}
	advance("a", 20, "1", "2")
	suspect("b", "3", "one", 0, 20)
	suspect("b", "4", "one", 20, 20)
	advance("b", 30, "4", "5")
	advance("", 40, "5", "6")
	suspect("c", "7", "one", 20, 20)
	advance("c", 50, "7", "8")
	suspect("d", "9", "one", 20, 50)
	suspect("e", "10", "two", 50, 0)
}

// Only who knows what was stored last stores more, and only on the server on which that was.
func (s *suite[TTx]) spotGuards() {
	x, y := store.Spot{Lane: "t/0", Origin: "one", Position: 1}, store.Spot{Lane: "t/1", Origin: "one", Position: 1}
	server := s.occupy("a", "1", x, y).Server
	stale, mine := x, y
	stale.Position, stale.Note = 5, "0"
	mine.Position, mine.Note, mine.Life = 5, "1", "a"
	x.Life, x.Note = "a", "1"
	got := s.noteSpots(server, "2", stale, mine)
	mine.Note = "2"
	s.spots(got, x, mine)
	more := mine
	more.Position = 6
	s.spots(s.noteSpots("2001-02-03T04:05:06Z/7", "3", more), x, mine)
	for _, turn := range []store.Turn{store.Arriving, store.Anytime} {
		m := mark()
		m.Turn = turn
		in := intake(m)
		in.Server = server
		s.rollback(s.begin(s.d, in))
		in.Server = "2001-02-03T04:05:06Z/7"
		u, err := s.d.Begin(s.Context(), in)
		if err == nil {
			s.rollback(u)
		}
		s.is(err, store.ErrLost, "begin on another server")
	}
}

func (s *suite[TTx]) spotRewind() {
	x := store.Spot{Lane: "t/0", Origin: "one", Position: 10, Reach: 20}
	s.occupy("a", "1", x)
	rewind := func(origin, lane string, to int64) bool {
		stood, err := s.d.Apply(s.Context(), store.Effect{
			Rewind: &store.Rewind{Consumer: consumer, Lane: lane, Origin: origin, Position: to, Note: "r"},
			Audit:  &store.Audit{Who: "ann", Why: "again", What: "rewind", Consumer: consumer, Identity: store.Identity{Source: lane, ID: "3"}}})
		s.ok(err, "rewind")
		return stood[0]
	}
	if rewind("other", "t/0", 3) || rewind("one", "t/9", 3) || rewind("one", "t/0", 10) || rewind("one", "t/0", 11) {
		s.Error("rewound although a guard was lost")
	}
	if !rewind("one", "t/0", 3) {
		s.Error("not rewound")
	}
	x.Position, x.Life, x.Note = 3, "a", "r"
	s.spots(s.spotted(), x)
	if n := s.db.Count(s).Audits; n != 1 {
		s.Errorf("%d entries in the audit", n)
	}
}

// What a life has claimed that died is due as soon as somebody has its lanes.
func (s *suite[TTx]) spotClaimsOfTheDead() {
	lane := store.Spot{Lane: "t/0", Origin: "one", Position: 1}
	s.occupy("a", "1", lane)
	s.apply(keeping(parked("k", 1), parked("l", 2))...)
	claim := func(life string, limit int) int {
		c, err := s.d.Claim(s.Context(), consumer, life, store.Portion{Keys: limit}, time.Hour)
		s.ok(err, "claim")
		return len(c.Parked)
	}
	if n, m := claim("a", 1), claim("b", 1); n != 1 || m != 1 {
		s.Fatalf("claimed %d and %d", n, m)
	}
	s.occupy("a", "2", lane)
	if n := claim("c", 10); n != 0 {
		s.Errorf("%d claims of the living were lost", n)
	}
	s.occupy("c", "3", lane)
	if n := claim("c", 10); n != 1 {
		s.Errorf("%d claims of the dead are due, want 1", n)
	}
}

// What a life had in hand without a claim, a call that it was about to make, is due as a claim of its is; what was put down again
// waits for its time.
func (s *suite[TTx]) spotInHandOfTheDead() {
	lane := store.Spot{Lane: "t/0", Origin: "one", Position: 1}
	s.occupy("a", "1", lane)
	dead, living, marked, down, answered := parked("k", 1), parked("l", 2), parked("m", 3), parked("n", 4), parked("o", 5)
	for _, p := range []*store.Parked{&dead, &living, &marked, &down} {
		p.Life, p.Due, p.Call = "a", time.Hour, &store.Call{Key: "charge", Request: "1"}
	}
	living.Life = "b"
	s.apply(keeping(dead, living, marked, down)...)
	s.apply(again(marked, func(p *store.Parked) { p.Call.Undo = true }), again(down, func(p *store.Parked) { p.Life = "" }), keeping(answered)[0])
	c, err := s.d.Claim(s.Context(), consumer, "a", store.Portion{Keys: 1}, time.Hour)
	s.ok(err, "claim")
	if len(c.Parked) != 1 || c.Parked[0].Life != "a" {
		s.Fatalf("claimed %+v", c)
	}
	s.apply(again(answered, func(p *store.Parked) { p.Due = time.Hour }))
	s.occupy("a", "2", lane)
	s.claim(0)
	s.occupy("c", "3", lane)
	s.claim(0, "1", "3")
}

// A claim that nobody answered is counted; any answer ends the count, and says how often the process was ended.
func (s *suite[TTx]) spotClaims() {
	p := parked("k", 1)
	suspect := parked("l", 2)
	suspect.Claims = 1
	s.apply(keeping(p, suspect)...)
	for want := 1; want <= 3; want++ {
		got := s.claim(0, "1", "2")
		if got[0].Claims != want || got[1].Claims != want+1 || got[0].Kills != 0 {
			s.Errorf("claim %d: %d and %d, %d kills", want, got[0].Claims, got[1].Claims, got[0].Kills)
		}
	}
	s.apply(again(p, func(p *store.Parked) { p.Kills = 2 }))
	got := s.claim(0, "1", "2")
	if got[0].Claims != 1 || got[0].Kills != 2 || got[1].Kills != 0 {
		s.Errorf("after an answer: %+v", got)
	}
	s.apply(released(p))
	kept := s.kept(store.Sought{Identity: &p.Identity})
	if len(kept) != 1 || kept[0].Claims != 0 || kept[0].Kills != 0 {
		s.Errorf("released: %+v", kept)
	}
}
