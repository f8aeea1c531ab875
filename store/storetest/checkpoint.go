package storetest

import (
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

func checkpointTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"OccupyAndAdvance": (*suite[TTx]).checkpointOccupyAndAdvance,
		"AnotherOrigin":    (*suite[TTx]).checkpointAnotherOrigin,
		"Guards":           (*suite[TTx]).checkpointGuards,
		"Rewind":           (*suite[TTx]).checkpointRewind,
		"Claims":           (*suite[TTx]).checkpointClaims,
		"Suspects":         (*suite[TTx]).checkpointSuspects,
		"ClaimsOfTheDead":  (*suite[TTx]).checkpointClaimsOfTheDead,
		"InHandOfTheDead":  (*suite[TTx]).checkpointInHandOfTheDead,
	}
}

// wantCheckpoints fails the test unless the consumer has these checkpoints. It ignores the times.
func (s *suite[TTx]) wantCheckpoints(got store.SyncResult, want ...store.Checkpoint) {
	s.Helper()
	for i := range got.Checkpoints {
		if got.Checkpoints[i].At.IsZero() {
			s.Errorf("%+v has no time", got.Checkpoints[i])
		}
		got.Checkpoints[i].At = time.Time{}
	}
	if !slices.Equal(got.Checkpoints, want) {
		s.Errorf("the checkpoints are %+v, want %+v", got.Checkpoints, want)
	}
}

func (s *suite[TTx]) synced() store.SyncResult {
	s.Helper()
	all, err := s.d.SyncConsumer(s.Context(), store.SyncRequest{Consumer: consumer})
	s.ok(err, "read checkpoints")
	return all
}

func (s *suite[TTx]) occupy(session, note string, partitions ...store.Checkpoint) store.SyncResult {
	s.Helper()
	was, err := s.d.SyncConsumer(s.Context(), store.SyncRequest{Consumer: consumer,
		Take: true, Session: session,
		Stamp: note, Checkpoints: partitions})
	s.ok(err, "occupy")
	return was
}

func (s *suite[TTx]) noteCheckpoints(server, note string, partitions ...store.Checkpoint) store.SyncResult {
	s.Helper()
	now, err := s.d.SyncConsumer(s.Context(), store.SyncRequest{Consumer: consumer,
		Server: server, Stamp: note,
		Checkpoints: partitions})
	s.ok(err, "advance")
	return now
}

func (s *suite[TTx]) checkpointOccupyAndAdvance() {
	if was := s.synced(); len(was.Checkpoints) != 0 {
		s.Fatalf("there are %+v", was.Checkpoints)
	}
	x, y := store.Checkpoint{Partition: "t/0", Origin: "one", Position: -1},
		store.Checkpoint{Partition: "t/1", Origin: "one", Position: 7, InFlightEnd: 9}
	was := s.occupy("a", "a-1", y, x)
	s.wantCheckpoints(was)
	x.Session, x.Stamp, y.Session, y.Stamp = "a", "a-1", "a", "a-1"
	s.wantCheckpoints(s.synced(), x, y)
	x.Position, x.InFlightEnd = 3, 1<<40
	got := s.noteCheckpoints(was.Server, "a-2", x)
	x.Stamp = "a-2"
	s.wantCheckpoints(got, x, y)
	x.Session = ""
	s.noteCheckpoints(was.Server, "a-3", x)
	x.Stamp = "a-3"
	s.wantCheckpoints(s.noteCheckpoints(was.Server, "a-4"), x, y) // nothing is stored, and all are returned
	late := x
	late.Position = 8
	s.wantCheckpoints(s.noteCheckpoints(was.Server+"?", "a-5", late), x, y) // of other tables on that server
	s.wantCheckpoints(
		s.occupy("b", "b-1", store.Checkpoint{Partition: "t/0", Origin: "one", Position: -1}), x, y)
	x.Session, x.Stamp = "b", "b-1"
	s.wantCheckpoints(s.synced(), x, y)
	other, err := s.db.Driver(s).SyncConsumer(s.Context(), store.SyncRequest{Consumer: "another"})
	if s.ok(err, "read checkpoints"); len(other.Checkpoints) != 0 {
		s.Errorf("another consumer has %+v", other)
	}
}

// checkpointAnotherOrigin checks that the checkpoint of a topic is not used after the topic was created
// again under its name.
func (s *suite[TTx]) checkpointAnotherOrigin() {
	old := store.Checkpoint{Partition: "t/0", Origin: "old", Position: 100, InFlightEnd: 200}
	s.occupy("a", "1", old)
	old.Session, old.Stamp = "a", "1"
	next := store.Checkpoint{Partition: "t/0", Origin: "new", Position: -1}
	s.wantCheckpoints(s.occupy("b", "2", next), old)
	next.Session, next.Stamp = "b", "2"
	s.wantCheckpoints(s.synced(), next)
}

// checkpointSuspects checks CrashSuspect after a session that ended without releasing the partition. The
// result of SyncConsumer has the state before the call.
func (s *suite[TTx]) checkpointSuspects() {
	x := store.Checkpoint{Partition: "t/0", Origin: "one", Position: 1, InFlightEnd: 2}
	server := s.occupy("a", "1", x).Server
	advance := func(session string, reach int64, was, note string) {
		s.noteCheckpoints(server, note, store.Checkpoint{Partition: x.Partition, Origin: x.Origin,
			Position: 1, InFlightEnd: reach, Session: session, Stamp: was})
	}
	suspect := func(session, note, origin string, want, then int64) {
		s.Helper()
		partition := x
		partition.Origin = origin
		if got := s.occupy(session, note, partition).Checkpoints[0].CrashSuspect; got != want {
			s.Errorf("%s gets suspect %d, want %d", session, got, want)
		}
		if got := s.synced().Checkpoints[0].CrashSuspect; got != then {
			s.Errorf("after %s the suspect is %d, want %d", session, got, then)
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

// checkpointGuards checks that a checkpoint is stored only with the last stamp, and only on the same
// server.
func (s *suite[TTx]) checkpointGuards() {
	x, y := store.Checkpoint{Partition: "t/0", Origin: "one", Position: 1},
		store.Checkpoint{Partition: "t/1", Origin: "one", Position: 1}
	server := s.occupy("a", "1", x, y).Server
	stale, mine := x, y
	stale.Position, stale.Stamp = 5, "0"
	mine.Position, mine.Stamp, mine.Session = 5, "1", "a"
	x.Session, x.Stamp = "a", "1"
	got := s.noteCheckpoints(server, "2", stale, mine)
	mine.Stamp = "2"
	s.wantCheckpoints(got, x, mine)
	more := mine
	more.Position = 6
	s.wantCheckpoints(s.noteCheckpoints("2001-02-03T04:05:06Z/7", "3", more), x, mine)
	for _, turn := range []store.KeyOrder{store.Arriving, store.Anytime} {
		m := mark()
		m.KeyOrder = turn
		in := intake(m)
		in.Server = server
		s.rollback(s.begin(s.d, in))
		in.Server = "2001-02-03T04:05:06Z/7"
		u, err := s.d.Begin(s.Context(), in)
		if err == nil {
			s.rollback(u)
		}
		s.wantError(err, store.ErrLost, "begin on another server")
	}
	p := parked("k", 1)
	stands, err := s.d.Apply(s.Context(), store.Effect{Park: &store.Park{Parked: p, Server: "2001-02-03T04:05:06Z/7"}})
	if err != nil || stands[0] {
		s.Errorf("park on another server: %v, %v", stands, err)
	}
	s.apply(store.Effect{Park: &store.Park{Parked: p, Server: server}})
}

func (s *suite[TTx]) checkpointRewind() {
	x := store.Checkpoint{Partition: "t/0", Origin: "one", Position: 10, InFlightEnd: 20}
	s.occupy("a", "1", x)
	rewind := func(origin, partition string, to int64) bool {
		stored, err := s.d.Apply(s.Context(), store.Effect{
			Rewind: &store.Rewind{Consumer: consumer, Partition: partition, Origin: origin, Position: to,
				Stamp: "r"},
			Audit: &store.Audit{Author: "ann", Reason: "again", Action: "rewind", Consumer: consumer,
				Identity: store.Identity{Source: partition, ID: "3"}}})
		s.ok(err, "rewind")
		return stored[0]
	}
	if rewind("other", "t/0", 3) || rewind("one", "t/9", 3) || rewind("one", "t/0", 10) ||
		rewind("one", "t/0", 11) {
		s.Error("rewound although a guard was lost")
	}
	if !rewind("one", "t/0", 3) {
		s.Error("not rewound")
	}
	x.Position, x.Session, x.Stamp = 3, "a", "r"
	s.wantCheckpoints(s.synced(), x)
	if n := s.db.Count(s).Audits; n != 1 {
		s.Errorf("%d entries in the audit", n)
	}
}

// checkpointClaimsOfTheDead checks that messages which a crashed session had claimed become due when
// another session takes its partitions.
func (s *suite[TTx]) checkpointClaimsOfTheDead() {
	partition := store.Checkpoint{Partition: "t/0", Origin: "one", Position: 1}
	s.occupy("a", "1", partition)
	s.apply(keeping(parked("k", 1), parked("l", 2))...)
	claim := func(session string, limit int) int {
		c, err := s.d.Claim(s.Context(), store.ClaimRequest{Consumer: consumer, Session: session,
			ClaimSize: store.ClaimSize{Keys: limit}, Lease: time.Hour})
		s.ok(err, "claim")
		return len(c.Parked)
	}
	if n, m := claim("a", 1), claim("b", 1); n != 1 || m != 1 {
		s.Fatalf("claimed %d and %d", n, m)
	}
	s.occupy("a", "2", partition)
	if n := claim("c", 10); n != 0 {
		s.Errorf("%d claims of the living were lost", n)
	}
	s.occupy("c", "3", partition)
	if n := claim("c", 10); n != 1 {
		s.Errorf("%d claims of the dead are due, want 1", n)
	}
}

// checkpointInHandOfTheDead checks the same for a message without a claim, for which the session planned a
// call. A message that was released waits for its time.
func (s *suite[TTx]) checkpointInHandOfTheDead() {
	partition := store.Checkpoint{Partition: "t/0", Origin: "one", Position: 1}
	s.occupy("a", "1", partition)
	dead, living, marked, down, answered := parked("k", 1), parked("l", 2), parked("m", 3), parked("n", 4),
		parked("o", 5)
	for _, p := range []*store.Parked{&dead, &living, &marked, &down} {
		p.Session, p.Due, p.Call = "a", time.Hour, &store.Call{Key: "charge", Request: "1"}
	}
	living.Session = "b"
	s.apply(keeping(dead, living, marked, down)...)
	s.apply(parkAgain(marked, func(p *store.Parked) { p.Call.Undo = true }),
		parkAgain(down, func(p *store.Parked) { p.Session = "" }), keeping(answered)[0])
	c, err := s.d.Claim(s.Context(), store.ClaimRequest{Consumer: consumer, Session: "a",
		ClaimSize: store.ClaimSize{Keys: 1}, Lease: time.Hour})
	s.ok(err, "claim")
	if len(c.Parked) != 1 || c.Parked[0].Session != "a" {
		s.Fatalf("claimed %+v", c)
	}
	s.apply(parkAgain(answered, func(p *store.Parked) { p.Due = time.Hour }))
	s.occupy("a", "2", partition)
	s.claim(0)
	s.occupy("c", "3", partition)
	s.claim(0, "1", "3")
}

// checkpointClaims checks that a claim without an answer is counted, and that each answer ends the count
// and stores CrashCount.
func (s *suite[TTx]) checkpointClaims() {
	p := parked("k", 1)
	suspect := parked("l", 2)
	suspect.Claims = 1
	s.apply(keeping(p, suspect)...)
	for want := 1; want <= 3; want++ {
		got := s.claim(0, "1", "2")
		if got[0].Claims != want || got[1].Claims != want+1 || got[0].CrashCount != 0 {
			s.Errorf("claim %d: %d and %d, %d kills", want, got[0].Claims, got[1].Claims, got[0].CrashCount)
		}
	}
	s.apply(parkAgain(p, func(p *store.Parked) { p.CrashCount = 2 }))
	got := s.claim(0, "1", "2")
	if got[0].Claims != 1 || got[0].CrashCount != 2 || got[1].CrashCount != 0 {
		s.Errorf("after an answer: %+v", got)
	}
	s.apply(released(p))
	kept := s.kept(store.ParkedQuery{Identity: &p.Identity})
	if len(kept) != 1 || kept[0].Claims != 0 || kept[0].CrashCount != 0 {
		s.Errorf("released: %+v", kept)
	}
}
