package storetest

import (
	"slices"
	"strings"

	"github.com/skald-go/skald/store"
)

func answerTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"Stored":          (*suite[TTx]).answerStored,
		"Guards":          (*suite[TTx]).answerGuards,
		"OfRejection":     (*suite[TTx]).answerOfRejection,
		"RolledBack":      (*suite[TTx]).answerRolledBack,
		"Fingerprints":    (*suite[TTx]).answerFingerprints,
		"Enter":           (*suite[TTx]).answerEnter,
		"EnterRolledBack": (*suite[TTx]).answerEnterRolledBack,
	}
}

// identities returns an ID of each kind: with a timestamp, and without.
func identities() (out []store.Mark) {
	timeless, ahead := mark(), aged(-2*day)
	timeless.ID = "order-7/größe"
	return []store.Mark{mark(), timeless, ahead, aged(3 * day)}
}

// verdict fails the test unless Seen and an intake return v for m.
func (s *suite[TTx]) verdict(m store.Mark, v store.Verdict) {
	s.Helper()
	got, err := s.d.Seen(s.Context(), m.Consumer, []store.Identity{m.Identity})
	s.ok(err, "seen")
	if got = sameLeft(got); got[0] != v {
		s.Errorf("seen %s: %+v, want %+v", m.ID, got[0], v)
	}
	u := s.begin(s.d, intake(m))
	if got := sameLeft(u.Found().Marks)[0]; got != v {
		s.Errorf("found %s: %+v, want %+v", m.ID, got, v)
	}
	s.rollback(u)
}

// answerStored checks that a stored answer is returned byte for byte.
func (s *suite[TTx]) answerStored() {
	for i, m := range identities() {
		m.Emitted = strings.Repeat("é", i)
		m.Headers = strings.Repeat("ü", i)
		m.Code, m.Result = int32(200+i), "{\"größe\":1}\x00\xff\\"+strings.Repeat("x", 20_000)
		u := s.begin(s.d, intake(m))
		s.commit(u, store.Effect{Answer: &m, Rows: rows(message("a", i)).Rows})
		s.verdict(m, store.Verdict{Outcome: store.Done, Code: m.Code, Result: m.Result, Emitted: m.Emitted,
			Headers: m.Headers})
	}
	none := mark()
	s.commit(s.begin(s.d, intake(none)), store.Effect{Answer: &none})
	s.verdict(none, store.Verdict{Outcome: store.Done})
	s.wantCounts(4, 5, 0)
}

func (s *suite[TTx]) answerGuards() {
	absent, said := mark(), rows(message("a", 1)).Rows
	s.applied([]bool{false}, store.Effect{Answer: &absent, Rows: said})
	no := rejected(mark(), "no")
	s.apply(store.Effect{Mark: &no})
	yes := no
	yes.Outcome, yes.Result = store.Done, "yes"
	s.applied([]bool{false}, store.Effect{Answer: &yes, Rows: said}) // a rejection is no success
	first := mark()
	first.Result = "first"
	s.commit(s.begin(s.d, intake(first)), store.Effect{Answer: &first})
	second := first
	second.Result = "second"
	s.applied([]bool{false}, store.Effect{Answer: &second, Rows: said})
	u := s.begin(s.d, intake(first))
	s.wantError(u.Commit(s.Context(), store.Effect{Answer: &second, Rows: said}), store.ErrLost,
		"a second answer")
	s.verdict(first, store.Verdict{Outcome: store.Done, Result: "first"})
	s.wantCounts(0, 2, 0)
}

func (s *suite[TTx]) answerOfRejection() {
	for _, m := range identities() {
		m = rejected(m, "out of stock")
		m.Code, m.Result, m.Emitted = 409, `{"left":0}`, "[]"
		m.Headers = `{"Retry-After":["9"]}`
		u := s.begin(s.d, intake(m))
		stored, err := u.Rollback(s.Context(), store.Effect{Mark: &m})
		if s.ok(err, "reject"); !stored[0] {
			s.Fatal("the rejection is not stored")
		}
		s.verdict(m, store.Verdict{Outcome: store.Rejected, Reason: m.Reason, Code: 409, Result: m.Result,
			Emitted: "[]", Headers: m.Headers})
	}
	// if the mark exists already, the answer is the rejection
	m := mark()
	u := s.begin(s.d, intake(m))
	no := rejected(m, "no")
	no.Code = 1
	s.commit(u, store.Effect{Answer: &no})
	s.verdict(m, store.Verdict{Outcome: store.Rejected, Reason: "no", Code: 1})
}

func (s *suite[TTx]) answerRolledBack() {
	for _, m := range identities() {
		m.Result = "lost"
		bad := rejected(mark(), "taken")
		s.apply(store.Effect{Mark: &bad})
		u := s.begin(s.d, intake(m))
		s.wantError(u.Commit(s.Context(), store.Effect{Answer: &m}, store.Effect{Mark: &bad}), store.ErrLost,
			"a commit with a lost guard")
		s.seen(m, store.Fresh)
		m.Result = "stays"
		s.commit(s.begin(s.d, intake(m)), store.Effect{Answer: &m})
		s.verdict(m, store.Verdict{Outcome: store.Done, Result: "stays"})
	}
}

// answerFingerprints checks that the first fingerprint of a message stays, and that it is separate from the
// verdict.
func (s *suite[TTx]) answerFingerprints() {
	for i, m := range identities() {
		m.Fingerprint = []int64{1, -1, 1 << 62, -1 << 63}[i]
		s.commit(s.begin(s.d, intake(m)))
		other := m
		other.Fingerprint = 12345
		s.verdict(other, store.Verdict{Outcome: store.Done, Fingerprint: m.Fingerprint})
		s.applied([]bool{false}, store.Effect{Mark: &other})
		no := rejected(mark(), "no")
		no.Fingerprint = m.Fingerprint
		s.apply(store.Effect{Mark: &no})
		s.verdict(no, store.Verdict{Outcome: store.Rejected, Reason: "no", Fingerprint: m.Fingerprint})
	}
	one, err := s.d.Secret(s.Context())
	s.ok(err, "secret")
	two, err := s.db.Driver(s).Secret(s.Context())
	s.ok(err, "secret")
	if len(one) < 16 || !slices.Equal(one, two) {
		s.Errorf("the key of fingerprints is %d bytes, and another process has %d bytes", len(one), len(two))
	}
}

// answerEnter checks that marks, an answer and rows in a transaction of the caller commit with it.
func (s *suite[TTx]) answerEnter() {
	for i, m := range identities() {
		m.Fingerprint = 7
		tx := s.db.Begin(s)
		found, err := s.d.Enter(s.Context(), tx,
			store.Intake{Marks: []store.Mark{m}, Locks: []store.Lock{{Space: "order", Key: "a"}}})
		s.ok(err, "enter")
		if found.Marks[0].Outcome != store.Fresh || found.Locks[0] != int64(i+1) {
			s.Fatalf("enter found %+v", found)
		}
		s.put(tx, m.ID, "done")
		m.Result = "7"
		s.ok(s.d.Write(s.Context(), tx, store.Effect{Answer: &m}), "answer")
		s.ok(s.db.Commit(tx), "commit")
		s.wantUser(m.ID, "done")
		want := store.Verdict{Outcome: store.Done, Fingerprint: 7, Result: "7"}
		s.verdict(m, want)
		tx = s.db.Begin(s)
		found, err = s.d.Enter(s.Context(), tx, intake(m))
		if s.ok(err, "enter again"); found.Marks[0] != want {
			s.Errorf("enter found %+v, want %+v", found.Marks[0], want)
		}
		s.wantError(s.d.Write(s.Context(), tx, store.Effect{Answer: &m}), store.ErrLost, "a second answer")
		s.ok(s.db.Rollback(tx), "roll back")
	}
}

func (s *suite[TTx]) answerEnterRolledBack() {
	m := mark()
	tx := s.db.Begin(s)
	_, err := s.d.Enter(s.Context(), tx, intake(m))
	s.ok(err, "enter")
	s.ok(s.d.Write(s.Context(), tx, store.Effect{Answer: &m}), "answer")
	s.put(tx, "k", "v")
	s.ok(s.db.Rollback(tx), "roll back")
	s.wantUser("k", "")
	s.verdict(m, store.Verdict{})
	s.wantCounts(0, 0, 0)
}
