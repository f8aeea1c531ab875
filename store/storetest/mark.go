package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
)

func markTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"Verdicts":           (*suite[TTx]).markVerdicts,
		"LongReason":         (*suite[TTx]).markLongReason,
		"Identity":           (*suite[TTx]).markIdentity,
		"IDsOfAllTimes":      (*suite[TTx]).markIDsOfAllTimes,
		"Many":               (*suite[TTx]).markMany,
		"Twice":              (*suite[TTx]).markTwice,
		"RivalCommits":       (*suite[TTx]).markRivalCommits,
		"RivalRollsBack":     (*suite[TTx]).markRivalRollsBack,
		"RivalTakesTooLong":  (*suite[TTx]).markRivalTakesTooLong,
		"SeenLocksNothing":   (*suite[TTx]).markSeenLocksNothing,
		"OneOfManyWins":      (*suite[TTx]).markOneOfManyWins,
		"ApplyEachForItself": (*suite[TTx]).markApplyEachForItself,
		"ApplyAllOrNothing":  (*suite[TTx]).markApplyAllOrNothing,
	}
}

func (s *suite[TTx]) markVerdicts() {
	done, no := mark(), rejected(mark(), "out of stock: größer als 0")
	s.commit(s.begin(s.d, intake(done, no)))
	u := s.begin(s.db.Driver(s), intake(no, mark(), done))
	s.found(u, store.Rejected, store.Fresh, store.Done)
	if got := u.Found().Marks[0].Reason; got != no.Reason {
		s.Errorf("the reason is %q", got)
	}
	s.rollback(u)
	got, err := s.d.Seen(s.Context(), consumer, []store.Identity{mark().Identity, no.Identity, done.Identity})
	s.ok(err, "seen")
	want := []store.Verdict{{}, {Outcome: store.Rejected, Reason: no.Reason}, {Outcome: store.Done}}
	if !slices.Equal(got, want) {
		s.Errorf("seen %+v, want %+v", got, want)
	}
	// A repeat does not change the first verdict.
	again := done
	again.Outcome, again.Reason = store.Rejected, "late"
	s.applied([]bool{false}, store.Effect{Mark: &again})
	s.commit(s.begin(s.d, intake(again)))
	s.seen(done, store.Done)
	barred := mark()
	barred.Outcome = store.Barred
	s.apply(store.Effect{Mark: &barred})
	s.seen(barred, store.Barred)
	s.wantCounts(0, 3, 0)
}

func (s *suite[TTx]) markLongReason() {
	long := strings.Repeat("ä", 1000)
	no := rejected(mark(), long)
	s.apply(store.Effect{Mark: &no})
	got, err := s.d.Seen(s.Context(), consumer, []store.Identity{no.Identity})
	s.ok(err, "seen")
	if r := got[0].Reason; len(r) > 1024 || len(r) < 1000 || !utf8.ValidString(r) ||
		!strings.HasPrefix(long, r) {
		s.Errorf("a reason of %d bytes came back as %d bytes, valid %v", len(long), len(r),
			utf8.ValidString(r))
	}
}

// markIdentity checks that consumer, source and ID together are the identity, compared byte for byte.
func (s *suite[TTx]) markIdentity() {
	base := mark()
	base.ID = "0190163d-8694-739b-aea5-966c26f8ad90"
	s.apply(store.Effect{Mark: &base})
	var others []store.Mark
	for _, change := range []func(*store.Mark){
		func(m *store.Mark) { m.Consumer = "stock2" },
		func(m *store.Mark) { m.Source = "/Orders" },
		func(m *store.Mark) { m.Source = "" },
		func(m *store.Mark) { m.ID = strings.ToUpper(m.ID) },
		func(m *store.Mark) { m.ID = strings.ReplaceAll(m.ID, "-", "") },
		func(m *store.Mark) { m.ID += " " },
		func(m *store.Mark) { m.ID = "größe/1'\"\\ %s ☃" },
		func(m *store.Mark) { m.ID = "7" },
		func(m *store.Mark) { m.ID = "07" },
		func(m *store.Mark) { m.ID = "4c1dbbc5-e1a2-4a2b-9e0c-1a4e8ab1c3f7" },
		func(m *store.Mark) { m.Source, m.ID = "a", "bc" },
		func(m *store.Mark) { m.Source, m.ID = "ab", "c" },
		func(m *store.Mark) { m.ID = strings.Repeat("x", 1024) },
	} {
		m := base
		change(&m)
		s.seen(m, store.Fresh)
		others = append(others, m)
	}
	u := s.begin(s.d, intake(others...))
	s.found(u, slices.Repeat([]store.Outcome{store.Fresh}, len(others))...)
	s.commit(u)
	u = s.begin(s.d, intake(others...))
	s.found(u, slices.Repeat([]store.Outcome{store.Done}, len(others))...)
	s.rollback(u)
	for _, m := range append(others, base) {
		s.seen(m, store.Done)
	}
	s.wantCounts(0, len(others)+1, 0)
}

// markIDsOfAllTimes checks IDs with timestamps of the whole range.
func (s *suite[TTx]) markIDsOfAllTimes() {
	var ms []store.Mark
	for _, ago := range []time.Duration{-100 * 365 * 24 * time.Hour, -2 * time.Hour, -59 * time.Minute, 0,
		24 * time.Hour,
		29 * 24 * time.Hour, 36 * 24 * time.Hour, 400 * 24 * time.Hour} {
		m := mark()
		m.ID = uuid7.New(time.Now().Add(-ago))
		ms = append(ms, m)
	}
	m := mark()
	m.ID = uuid7.New(time.UnixMilli(0))
	ms = append(ms, m)
	s.commit(s.begin(s.d, intake(ms...)))
	for _, m := range ms {
		s.seen(m, store.Done)
		s.applied([]bool{false}, store.Effect{Mark: &m})
	}
	s.wantCounts(0, len(ms), 0)
}

// markMany checks a large intake: each result has the index of its message.
func (s *suite[TTx]) markMany() {
	var all []store.Mark
	want := map[string]store.Outcome{}
	for i := range 300 {
		m := mark()
		if i%7 == 0 {
			m.ID = fmt.Sprintf("foreign-%d", i)
		}
		all = append(all, m)
		switch i % 3 {
		case 0:
			s.apply(store.Effect{Mark: &m})
			want[m.ID] = store.Done
		case 1:
			no := rejected(m, m.ID)
			s.apply(store.Effect{Mark: &no})
			want[m.ID] = store.Rejected
		}
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var ids []store.Identity
	for _, m := range all {
		ids = append(ids, m.Identity)
	}
	seen, err := s.d.Seen(s.Context(), consumer, ids)
	s.ok(err, "seen")
	u := s.begin(s.d, intake(all...))
	for i, m := range all {
		v := u.Found().Marks[i]
		if v.Outcome != want[m.ID] || seen[i] != v || v.Outcome == store.Rejected && v.Reason != m.ID {
			s.Errorf("%s: found %+v, seen %+v, want %v", m.ID, v, seen[i], want[m.ID])
		}
	}
	s.commit(u)
	s.wantCounts(0, len(all), 0)
}

// markTwice checks that a message that is in a batch twice is fresh once.
func (s *suite[TTx]) markTwice() {
	m, no := mark(), rejected(mark(), "no")
	u := s.begin(s.d, intake(m, no, m, no))
	s.found(u, store.Fresh, store.Fresh, store.Done, store.Rejected)
	s.wantError(u.Commit(s.Context(), store.Effect{Mark: &m}), store.ErrLost,
		"a mark that the unit took in itself")
	s.wantCounts(0, 0, 0)
	s.applied([]bool{true, false}, store.Effect{Mark: &m}, store.Effect{Mark: &m})
	s.wantCounts(0, 1, 0)
}

// beginWithRival begins a unit with m while another process has m in progress. The function endRival ends
// the unit of the other process.
func (s *suite[TTx]) beginWithRival(m store.Mark, endRival func(store.Unit[TTx])) store.Unit[TTx] {
	s.Helper()
	holder := s.begin(s.db.Driver(s), intake(m))
	s.found(holder, store.Fresh)
	var u store.Unit[TTx]
	var err error
	came := meanwhile(func() { u, err = s.d.Begin(s.Context(), intake(m)) })
	s.wantBlocked(came, "a rival")
	endRival(holder)
	s.comes(came, "the rival's turn")
	s.ok(err, "the rival's begin")
	return u
}

func (s *suite[TTx]) markRivalCommits() {
	u := s.beginWithRival(mark(), func(h store.Unit[TTx]) { s.commit(h) })
	s.found(u, store.Done)
	s.rollback(u)
	u = s.beginWithRival(rejected(mark(), "no"), func(h store.Unit[TTx]) { s.commit(h) })
	s.found(u, store.Rejected)
	if got := u.Found().Marks[0].Reason; got != "no" {
		s.Errorf("the rival finds the reason %q", got)
	}
	s.rollback(u)
	s.wantCounts(0, 2, 0)
}

func (s *suite[TTx]) markRivalRollsBack() {
	u := s.beginWithRival(mark(), s.rollback)
	s.found(u, store.Fresh)
	s.commit(u)
	s.wantCounts(0, 1, 0)
}

func (s *suite[TTx]) markRivalTakesTooLong() {
	m := mark()
	holder := s.begin(s.db.Driver(s), intake(m))
	began := time.Now()
	_, err := s.d.Begin(s.Context(), store.Intake{Marks: []store.Mark{m}, Wait: 4 * shortly})
	s.wantError(err, store.ErrBusy, "begin against a rival")
	if took := time.Since(began); took < shortly || took > patience {
		s.Errorf("begin waited %v for a rival, its bound is %v", took, 4*shortly)
	}
	s.commit(holder)
	u := s.begin(s.d, intake(m))
	s.found(u, store.Done)
	s.rollback(u)
}

func (s *suite[TTx]) markSeenLocksNothing() {
	m := mark()
	u := s.begin(s.db.Driver(s), intake(m))
	came := meanwhile(func() { s.seen(m, store.Fresh) })
	s.comes(came, "a look at a mark in a rival's hand")
	s.commit(u)
	s.seen(m, store.Done)
}

func (s *suite[TTx]) markOneOfManyWins() {
	m := mark()
	var fresh atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		d := s.db.Driver(s)
		wg.Go(func() {
			u, err := d.Begin(s.Context(), intake(m))
			if err != nil {
				s.Errorf("begin: %v", err)
				return
			}
			if u.Found().Marks[0].Outcome != store.Fresh {
				_, _ = u.Rollback(s.Context())
				return
			}
			fresh.Add(1)
			if err := u.Commit(s.Context(), rows(message("a", 1))); err != nil {
				s.Errorf("commit: %v", err)
			}
		})
	}
	wg.Wait()
	if got := fresh.Load(); got != 1 {
		s.Errorf("%d of 8 rivals took the message", got)
	}
	s.wantCounts(1, 1, 0)
}

func (s *suite[TTx]) markApplyEachForItself() {
	done := mark()
	s.apply(store.Effect{Mark: &done})
	var es []store.Effect
	var want []bool
	var ids []string
	for i := range 60 {
		m, row := mark(), message("a", i)
		if i%4 == 1 {
			m = done
		} else {
			ids = append(ids, row.ID)
		}
		es = append(es, store.Effect{Mark: &m, Rows: rows(row).Rows})
		want = append(want, i%4 != 1)
	}
	s.applied(want, es...)
	s.wantCounts(45, 46, 0)
	s.wantIDs(s.allRows(), ids...)
}

// markApplyAllOrNothing checks that an effect with any lost guard stores nothing.
func (s *suite[TTx]) markApplyAllOrNothing() {
	l := s.lease(s.d, "one", "1")[0]
	good := store.Progress{Shard: l.ID, Epoch: l.Epoch, Token: l.Token, Incarnation: new("b1")}
	bad := good
	bad.Epoch++
	done, fresh := mark(), mark()
	s.apply(store.Effect{Mark: &done})
	lock := func(version int64) []store.Lock {
		return []store.Lock{{Space: "order", Key: "a", Version: version}}
	}
	said := rows(message("a", 1)).Rows
	s.applied([]bool{false, false, false},
		store.Effect{Mark: &done, Locks: lock(1), Shard: &good, Rows: said},
		store.Effect{Mark: &fresh, Locks: lock(2), Shard: &good, Rows: said},
		store.Effect{Mark: &fresh, Locks: lock(1), Shard: &bad, Rows: said})
	s.wantCounts(0, 1, 0)
	s.seen(fresh, store.Fresh)
	if got := s.lease(s.d, "one", "1")[0].Incarnation; got != "" {
		s.Errorf("an effect that was lost stored the incarnation %q", got)
	}
	s.apply(store.Effect{Mark: &fresh, Locks: lock(1), Shard: &good, Rows: said})
	s.wantCounts(1, 2, 0)
}
