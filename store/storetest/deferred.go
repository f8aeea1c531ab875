package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

const suiteOwner = "suite"

func asideTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"Held":           (*suite[TTx]).asideHeld,
		"RunsOfAKey":     (*suite[TTx]).asideRunsOfAKey,
		"InOrder":        (*suite[TTx]).asideInOrder,
		"WithoutKey":     (*suite[TTx]).asideWithoutKey,
		"Fair":           (*suite[TTx]).asideFair,
		"Again":          (*suite[TTx]).asideAgain,
		"Due":            (*suite[TTx]).asideDue,
		"Bytes":          (*suite[TTx]).asideBytes,
		"Large":          (*suite[TTx]).asideLarge,
		"Freed":          (*suite[TTx]).asideFreed,
		"ShardsApart":    (*suite[TTx]).asideShardsApart,
		"InWholeUnit":    (*suite[TTx]).asideInWholeUnit,
		"ManyAtOnce":     (*suite[TTx]).asideManyAtOnce,
		"SurvivesOutbox": (*suite[TTx]).asideSurvivesOutbox,
	}
}

// leaseShards takes all shards for the relay of the suite.
func (s *suite[TTx]) leaseShards() {
	if s.shards == nil {
		s.shards = s.lease(s.d, suiteOwner, "1")
	}
}

func (s *suite[TTx]) shardOf(r store.Row) store.Shard {
	s.leaseShards()
	i := slices.IndexFunc(s.shards,
		func(l store.Shard) bool { return l.First <= r.Bucket && r.Bucket <= l.Last })
	return s.shards[i]
}

func (s *suite[TTx]) setAside(as ...store.DeferredRow) {
	s.Helper()
	for _, a := range as {
		p := progressOf(s.shardOf(a.Row))
		first := a
		first.Attempts = min(a.Attempts, 1) // the first refusal defers a row
		p.Deferred = []store.DeferredRow{first, a}
		s.apply(progress(p))
	}
}

func (s *suite[TTx]) free(rs ...store.Row) {
	s.Helper()
	for _, r := range rs {
		p := progressOf(s.shardOf(r))
		p.Freed = []int64{r.Seq}
		s.apply(progress(p))
	}
}

// readDue reads due rows of all shards.
func (s *suite[TTx]) readDue(limit int) []store.DeferredRow {
	s.Helper()
	s.leaseShards()
	got, err := store.DueRows(s.Context(), s.d, shardIDs(s.shards), limit)
	s.ok(err, "retry")
	return got
}

func (s *suite[TTx]) wantRetry(want ...string) {
	s.Helper()
	due := s.readDue(1000)
	slices.SortFunc(due, func(a, b store.DeferredRow) int { return cmp.Compare(a.Seq, b.Seq) })
	var got []string
	for _, a := range due {
		got = append(got, a.Subject)
	}
	if !slices.Equal(got, want) {
		s.Fatalf("due are %v, want %v", got, want)
	}
}

// insertOne writes m and reads its row.
func (s *suite[TTx]) insertOne(m skald.Message) store.Row {
	s.Helper()
	base, _ := s.rowsSince(s.base)
	s.insert(m)
	tip, got := s.rowsSince(base)
	s.base = tip
	if len(got) != 1 {
		s.Fatalf("%d rows of 1 arrived", len(got))
	}
	return got[0]
}

// deferRun writes rows of key and defers them with these attempts. A negative number means that the row is
// not due for an hour. The subject of a row is the key and a number.
func (s *suite[TTx]) deferRun(key []byte, attempts ...int) (out []store.Row) {
	s.Helper()
	for i, n := range attempts {
		m := message("", i)
		m.Key, m.Subject = key, fmt.Sprint(strings.Trim(fmt.Sprintf("%+q", key), `"`), i+1)
		a := store.DeferredRow{Row: s.insertOne(m), Attempts: n, Why: "refused"}
		if n < 0 {
			a.Attempts, a.Due = -n, time.Hour
		}
		if n == 0 {
			a.Why = ""
		}
		s.setAside(a)
		out = append(out, a.Row)
	}
	return out
}

func (s *suite[TTx]) asideHeld() {
	held := func() []store.DeferredKey {
		got, err := store.DeferredKeys(s.Context(), s.d, shardIDs(s.shards))
		s.ok(err, "held")
		slices.SortFunc(got, func(a, b store.DeferredKey) int {
			return strings.Compare(a.Topic+"/"+string(a.Key), b.Topic+"/"+string(b.Key))
		})
		return got
	}
	s.leaseShards()
	if got := held(); len(got) != 0 {
		s.Fatalf("held keys are %v", got)
	}
	s.deferRun(nil, 1, 1)
	keys := [][]byte{{}, {0, 0xff}, []byte("a")}
	var want []store.DeferredKey
	for _, k := range keys {
		rs := s.deferRun(k, 1, 0, 0)
		want = append(want, store.DeferredKey{Topic: "orders", Key: k, Shard: s.shardOf(rs[0]).ID})
	}
	m := message("a", 9)
	m.Topic = "payments"
	r := s.insertOne(m)
	s.setAside(store.DeferredRow{Row: r, Attempts: 1})
	want = append(want, store.DeferredKey{Topic: "payments", Key: []byte("a"), Shard: s.shardOf(r).ID})
	got := held()
	if !slices.EqualFunc(got, want, func(a, b store.DeferredKey) bool {
		return a.Topic == b.Topic && string(a.Key) == string(b.Key) && a.Key != nil && a.Shard == b.Shard
	}) {
		s.Fatalf("held keys are %+v, want %+v", got, want)
	}
	s.free(r)
	if got := held(); len(got) != 3 {
		s.Fatalf("after one was freed %d keys are held", len(got))
	}
}

// asideRunsOfAKey checks the due rows of a key: the first row if it is due, then the waiting rows after it. A
// first row with attempts is returned alone.
func (s *suite[TTx]) asideRunsOfAKey() {
	for i, c := range []struct {
		attempts []int
		want     int
	}{
		{[]int{0}, 1}, {[]int{1}, 1}, {[]int{0, 0, 0}, 3}, {[]int{1, 0, 0}, 1}, {[]int{0, 0, 2, 0}, 2},
		{[]int{0, 1}, 1},
		{[]int{-1, 0, 0}, 0}, {[]int{-1, 1}, 0}, {[]int{1, 1}, 1}, {[]int{0, -1, 0}, 1}, {[]int{3, 0, 3}, 1},
		{[]int{0, 0, 0, 0, 1, 0}, 4},
	} {
		rs := s.deferRun(fmt.Appendf(nil, "k%d-", i), c.attempts...)
		var want []string
		for _, r := range rs[:c.want] {
			want = append(want, r.Subject)
		}
		s.wantRetry(want...)
		s.free(rs...)
	}
	s.wantRetry()
	s.wantCounts(s.db.Count(s).Rows, 0, 0)
}

// asideInOrder checks that rows of several keys are returned in the order of their numbers, for any limit.
func (s *suite[TTx]) asideInOrder() {
	var want []string
	for i := range 9 {
		m := message([]string{"a", "b", "c"}[i%3], i)
		m.Subject = fmt.Sprint(i)
		n := 0
		if i == 2 || i == 4 { // the first of c, the second of b
			n = 1
		}
		s.setAside(store.DeferredRow{Row: s.insertOne(m), Attempts: n})
		if m.Key[0] == 'a' || i == 1 || i == 2 {
			want = append(want, m.Subject)
		}
	}
	s.wantRetry(want...) // all of a, the first of b, only the first of c
	for limit := 1; limit <= len(want); limit++ {
		got, last := s.readDue(limit), map[string]int64{}
		for _, a := range got {
			if !slices.Contains(want, a.Subject) || a.Seq <= last[string(a.Key)] {
				s.Fatalf("with a limit of %d there is %s after %d", limit, a.Subject, last[string(a.Key)])
			}
			last[string(a.Key)] = a.Seq
		}
		if len(got) != limit {
			s.Fatalf("with a limit of %d there are %d", limit, len(got))
		}
	}
}

// asideFair checks that rows that were due first come first.
func (s *suite[TTx]) asideFair() {
	first, second := s.deferRun([]byte("a"), 1)[0], append(s.deferRun([]byte("b"), 1), s.deferRun([]byte("c"), 1)...)
	s.setAside(store.DeferredRow{Row: first, Attempts: 2, Due: 20 * time.Millisecond})
	s.waitUntil("all are due", func() bool { return len(s.readDue(10)) == 3 })
	var got []int64
	for _, a := range s.readDue(2) {
		got = append(got, a.Seq)
	}
	if !slices.Equal(got, []int64{second[0].Seq, second[1].Seq}) {
		s.Fatalf("got %v; a is %d, the others are %d and %d", got, first.Seq, second[0].Seq, second[1].Seq)
	}
}

// asideWithoutKey checks that rows without a key neither wait for others nor delay them.
func (s *suite[TTx]) asideWithoutKey() {
	s.deferRun(nil, -1, 1, 0, 2, -3, 0)
	s.wantRetry("2", "3", "4", "6")
	empty := s.deferRun([]byte{}, -1, 0) // an empty key is a key
	s.wantRetry("2", "3", "4", "6")
	s.free(empty[0])
	s.wantRetry("2", "3", "4", "6", "2")
}

// asideAgain checks that a row exists only once after it was deferred again, with the new values.
func (s *suite[TTx]) asideAgain() {
	r := s.deferRun([]byte("a"), 1)[0]
	long := strings.Repeat("ä", 1000)
	for i, why := range []string{"größe: \"\\ \n", "", long} {
		s.setAside(store.DeferredRow{Row: r, Attempts: i + 2, Why: why})
		got := s.readDue(10)
		if len(got) != 1 || got[0].Attempts != i+2 || got[0].Due != 0 {
			s.Fatalf("there are %+v", got)
		}
		if w := got[0].Why; w != why && len(why) <= 1024 || len(why) > 1024 &&
			(len(w) > 1024 || len(w) < 1000 || !utf8.ValidString(w) || !strings.HasPrefix(why, w)) {
			s.Fatalf("the reason %.50q of %d bytes came back as %.50q of %d", why, len(why), w, len(w))
		}
		s.wantCounts(1, 0, 1)
	}
}

func (s *suite[TTx]) asideDue() {
	r := s.deferRun([]byte("a"), -1)[0]
	s.wantRetry()
	s.setAside(store.DeferredRow{Row: r, Attempts: 2})
	s.wantRetry("a1")
	s.setAside(store.DeferredRow{Row: r, Attempts: 3, Due: time.Hour})
	s.wantRetry()
	s.setAside(store.DeferredRow{Row: r, Attempts: 4, Due: 20 * time.Millisecond})
	s.waitUntil("a row is due at last", func() bool { return len(s.readDue(10)) == 1 })
}

func (s *suite[TTx]) asideFreed() {
	rs := s.deferRun([]byte("a"), -1, 0, 0)
	s.free(rs[0], rs[0])
	s.wantRetry("a2", "a3")
	p := progressOf(s.shardOf(rs[1]))
	p.Freed = []int64{rs[1].Seq, 1 << 40, rs[2].Seq}
	s.apply(progress(p))
	s.wantRetry()
	s.wantCounts(3, 0, 0)
	s.setAside(store.DeferredRow{Row: rs[1], Attempts: 5}) // it may be deferred again
	s.wantRetry("a2")
}

func (s *suite[TTx]) asideShardsApart() {
	byShard := map[int][]string{}
	for i := range 40 {
		key := []byte(fmt.Sprint("k", i, "-"))
		r := s.deferRun(key, 1)[0]
		id := s.shardOf(r).ID
		byShard[id] = append(byShard[id], r.Subject)
	}
	if len(byShard) < 4 {
		s.Fatalf("40 keys are in %d shards", len(byShard))
	}
	for _, l := range s.shards {
		got, err := store.DueRows(s.Context(), s.d, []int{l.ID}, 100)
		s.ok(err, "retry")
		held, err := store.DeferredKeys(s.Context(), s.d, []int{l.ID})
		s.ok(err, "held")
		var subjects []string
		for _, a := range got {
			subjects = append(subjects, a.Subject)
		}
		if !slices.Equal(subjects, byShard[l.ID]) || len(held) != len(got) {
			s.Errorf("shard %d has %v and holds %d keys, want %v", l.ID, subjects, len(held), byShard[l.ID])
		}
	}
	for _, none := range [][]int{nil, {}, {5000}} {
		got, err := store.DueRows(s.Context(), s.d, none, 100)
		s.ok(err, "retry")
		held, err := store.DeferredKeys(s.Context(), s.d, none)
		s.ok(err, "held")
		if len(got)+len(held) != 0 {
			s.Errorf("of the shards %v there are %d rows and %d keys", none, len(got), len(held))
		}
	}
}

func (s *suite[TTx]) asideInWholeUnit() {
	a, b := s.insertOne(message("a", 1)), s.insertOne(message("a", 2))
	p := progressOf(s.shardOf(a))
	p.Deferred = []store.DeferredRow{{Row: a, Attempts: 1}, {Row: b}}
	s.wantError(s.begin(s.d, store.Intake{}).Commit(s.Context(), progress(p), lockAt("a", 9)),
		store.ErrLost, "commit")
	s.wantCounts(2, 0, 0)
	s.commit(s.begin(s.d, store.Intake{}), progress(p))
	s.wantCounts(2, 0, 2)
}

func (s *suite[TTx]) asideManyAtOnce() {
	var ms []skald.Message
	for i := range 200 {
		ms = append(ms, changed(func(m *skald.Message) { m.Subject = fmt.Sprint(i) }))
	}
	s.insert(ms...)
	all := s.allRows()
	p := progressOf(s.shardOf(all[0]))
	var want []string
	for _, r := range all {
		p.Deferred = append(p.Deferred, store.DeferredRow{Row: r})
		want = append(want, r.Subject)
	}
	s.apply(progress(p))
	s.wantRetry(want...)
	q := progressOf(s.shardOf(all[0]))
	for _, r := range all[:150] {
		q.Freed = append(q.Freed, r.Seq)
	}
	q.Deferred = []store.DeferredRow{{Row: all[160], Attempts: 1}}
	s.apply(progress(q))
	s.wantRetry(want[150:160]...)
}
