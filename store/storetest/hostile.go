package storetest

import (
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
)

func hostileTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"LongKeys":       (*suite[TTx]).hostileLongKeys,
		"LongKeyAside":   (*suite[TTx]).hostileLongKeyAside,
		"HashOfALongID":  (*suite[TTx]).hostileHashOfALongID,
		"ShardOfNobody":  (*suite[TTx]).hostileShardOfNobody,
		"RowLeftUnread":  (*suite[TTx]).hostileRowLeftUnread,
		"WordsForNoWord": (*suite[TTx]).hostileNullWords,
	}
}

// noise returns bytes that cannot be compressed.
func noise(n int) []byte {
	out := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{7}).Read(out) // never fails
	return out
}

func hashOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// hostileLongKeys checks keys of the maximum length. They are stored byte for byte, and block only their own
// messages.
func (s *suite[TTx]) hostileLongKeys() {
	long := string(noise(4000))
	a, b := parked(long, 1), parked(long, 2)
	other, like := parked(long[1:], 3), parked(hashOf([]byte(long)), 4)
	s.apply(keeping(a, b, other, like)...)
	s.wantOutcome(arriving(parked(long, 5)), store.Behind)
	s.wantOutcome(arriving(parked(long[2:], 6)), store.Fresh)
	for _, p := range s.claim(0, "1", "3", "4") {
		want := map[string]string{"1": long, "3": long[1:], "4": string(like.Message.Key)}[p.Message.Subject]
		if string(p.Message.Key) != want {
			s.Errorf("the key of message %s comes back as %.40q …", p.Message.Subject, p.Message.Key)
		}
	}
	if got := s.kept(store.ParkedQuery{Key: []byte(long)}); len(got) != 2 {
		s.Errorf("%d of two are found by their key", len(got))
	}
	s.apply(freed(a, nil))
	s.claim(0, "2", "3", "4")
	m := retrying(b)
	s.wantOutcome(m, store.Fresh)
	// several use other statements
	s.commit(s.begin(s.d, intake(arriving(parked("k", 7)), m)), freed(b, nil))
	s.claim(0, "3", "4")
}

// hostileLongKeyAside checks that a row with a key above the limit can be deferred.
func (s *suite[TTx]) hostileLongKeyAside() {
	a := store.DeferredRow{Row: store.Row{Message: message(string(noise(4000)), 1), Seq: 1 << 40},
		Attempts: 1, Why: "too long"}
	a.Topic = strings.Repeat("t", 3000)
	a.Source, a.Bucket = Source, column.Bucket(&a.Message)
	s.leaseShards()
	s.setAside(a)
	if got := s.readDue(9); len(got) != 1 || string(got[0].Key) != string(a.Key) {
		s.Errorf("%d rows are deferred, want 1", len(got))
	}
}

// hostileHashOfALongID checks that an ID that equals the hash of another, long ID is a different one.
func (s *suite[TTx]) hostileHashOfALongID() {
	a, b := mark(), mark()
	a.ID = strings.Repeat("ä", 2000)
	b.Source, b.ID = a.Source, hashOf([]byte(a.ID))
	s.apply(store.Effect{Mark: &a})
	s.seen(a, store.Done)
	s.seen(b, store.Fresh)
	s.apply(store.Effect{Mark: &b})
	s.wantCounts(0, 2, 0)
}

// hostileShardOfNobody checks that a shard without an owner cannot be moved, although its epoch and token
// are easy to guess.
func (s *suite[TTx]) hostileShardOfNobody() {
	p := store.Progress{Shard: 3, Cursor: &store.Cursor{Seq: 7}}
	q := p
	q.Shard = 4
	s.applied([]bool{false}, progress(p))
	s.applied([]bool{false, false}, progress(p), progress(q))
}

// hostileRowLeftUnread checks that an unreadable row is copied unchanged when it is deferred. If it is
// deferred again, only its attempt is updated.
func (s *suite[TTx]) hostileRowLeftUnread() {
	row := s.insertOne(filled())
	bare := row
	bare.Headers, bare.Data, bare.Fault = nil, nil, "it cannot be read"
	for n := 1; n <= 2; n++ {
		s.setAside(store.DeferredRow{Row: bare, Attempts: n, Why: bare.Fault})
		got := s.readDue(9)
		if len(got) != 1 || got[0].Attempts != n || got[0].Why != bare.Fault || got[0].Bucket != row.Bucket {
			s.Fatalf("the deferred rows are %+v", got)
		}
		s.wantSame(got[0].Row, row.Message)
	}
	s.free(row)
}

// hostileNullWords checks that words which mean "nothing" in some format are stored as words, and that
// missing values stay missing.
func (s *suite[TTx]) hostileNullWords() {
	base, _ := s.rowsSince(s.base)
	for n := range 15 {
		m := message("", n)
		m.CausationID, m.CorrelationID = "", m.ID
		if n%2 == 0 {
			word := []string{"NULL", "null", "", `\N`, "{}"}[n%5]
			m.Key, m.CausationID, m.TraceParent = []byte(word), "NULL", "NULL"
		}
		if n%3 == 0 {
			m.Data = nil
		}
		s.apply(rows(m))
		tip, alone := s.rowsSince(base)
		s.apply(rows(slices.Repeat(rows(m).Rows, 12)...))
		last, many := s.rowsSince(tip)
		base = last
		if len(alone) != 1 || len(many) != 12 {
			s.Fatalf("%d of 1 row and %d of 12 arrived", len(alone), len(many))
		}
		for _, got := range append(alone, many...) {
			s.wantSame(got, m)
		}
	}
	s.wantCounts(13*15, 0, 0)
}
