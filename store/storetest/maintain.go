package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
)

const day = 24 * time.Hour

func maintainTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"Empties":           (*suite[TTx]).maintainEmpties,
		"KeepsUncovered":    (*suite[TTx]).maintainKeepsUncovered,
		"KeepsOpenWindow":   (*suite[TTx]).maintainKeepsOpenWindow,
		"KeepsYoung":        (*suite[TTx]).maintainKeepsYoung,
		"NumbersGoOn":       (*suite[TTx]).maintainNumbersGoOn,
		"BesideOpenWriter":  (*suite[TTx]).maintainBesideOpenWriter,
		"BesideOpenHandler": (*suite[TTx]).maintainBesideOpenHandler,
		"Marks":             (*suite[TTx]).maintainMarks,
		"TimelessMarks":     (*suite[TTx]).maintainTimelessMarks,
		"Nothing":           (*suite[TTx]).maintainNothing,
		"Bounds":            (*suite[TTx]).maintainBounds,
	}
}

func week() store.Retention { return store.Retention{Outbox: 7 * day, Marks: 30 * day} }

// cover moves every shard to c.
func (s *suite[TTx]) cover(c store.Cursor) {
	s.Helper()
	s.leaseShards()
	for _, l := range s.shards {
		p := progressOf(l)
		p.Cursor = &c
		s.apply(progress(p))
	}
}

func (s *suite[TTx]) maintain() store.Maintained {
	s.Helper()
	dry := s.forecast(week())
	got, err := s.d.Maintain(s.Context(), store.Maintain{Keep: week()})
	s.ok(err, "maintain")
	if dry != nil {
		s.compareDry(*dry, got)
	}
	return got
}

// forecast returns the result of a dry run; nil if the driver has none.
func (s *suite[TTx]) forecast(keep store.Retention) *store.Maintained {
	s.Helper()
	before := s.db.Count(s)
	dry, err := s.d.Maintain(s.Context(), store.Maintain{Keep: keep, DryRun: true})
	s.ok(err, "forecast")
	if now := s.db.Count(s); now != before {
		s.Errorf("a forecast made %+v of %+v", now, before)
	}
	return &dry
}

// compareDry compares the result of Maintain with the forecast. Because of a rival, Maintain may delete fewer
// rows.
func (s *suite[TTx]) compareDry(dry, got store.Maintained) {
	s.Helper()
	for _, c := range []struct {
		what     string
		dry, got int64
	}{{"rows", dry.Rows, got.Rows}, {"marks", dry.Marks, got.Marks}, {"steps", dry.Steps, got.Steps}} {
		whole := c.got < 0 && c.dry > 0 // whole slots, truncated without counting
		if c.dry < 0 || !whole && c.dry != c.got && (len(got.Left) == len(dry.Left) || c.got > c.dry) {
			s.Errorf("the forecast of %s is %d, Maintain deleted %d; the forecast of Left is %q, Left is %q",
				c.what, c.dry, c.got, dry.Left, got.Left)
		}
	}
}

// tooOld is an age beyond the thirty days that marks are kept.
const tooOld = 32 * day

// writeOld writes n rows of keys in all shards that are past their retention.
func (s *suite[TTx]) writeOld(n int) {
	s.Helper()
	for i := range n {
		s.insert(message(fmt.Sprint("old-", i), i))
	}
	s.db.Age(s, 9*day)
}

// emptied runs Maintain until the outbox is empty, because one call may leave rows that it cannot lock.
func (s *suite[TTx]) emptied(rows int) {
	s.Helper()
	s.waitUntil(fmt.Sprintf("at most %d rows remain", rows), func() bool {
		s.maintain()
		return s.db.Count(s).Rows <= rows
	})
	if got := s.db.Count(s).Rows; got != rows {
		s.Fatalf("%d rows are left, want %d", got, rows)
	}
}

func (s *suite[TTx]) maintainEmpties() {
	s.writeOld(20)
	tip := s.tick("")
	s.cover(store.Cursor{Base: tip})
	s.emptied(0)
	if again := s.tick(tip); again != tip {
		s.Errorf("after the outbox was emptied the tick moves to %q", again)
	}
	m := message("a", 1)
	s.insert(m)
	_, got := s.rowsSince(tip)
	s.wantIDs(got, m.ID)
	if done := s.maintain(); done.Rows > 0 {
		s.Errorf("maintain emptied %+v of one young row", done)
	}
	s.wantCounts(1, 0, 0)
}

func (s *suite[TTx]) maintainKeepsUncovered() {
	s.writeOld(20)
	first := s.tick("")
	s.maintain()
	s.wantCounts(20, 0, 0) // no shard has made progress
	s.cover(store.Cursor{Base: first})
	late := message("late", 1)
	s.insert(late)
	s.db.Age(s, 9*day)
	second := s.tick(first)
	for _, l := range s.shards[1:] { // one shard is behind
		p := progressOf(l)
		p.Cursor = &store.Cursor{Base: second}
		s.apply(progress(p))
	}
	s.maintain()
	_, got := s.rowsSince(first)
	s.wantIDs(got, late.ID)
	s.cover(store.Cursor{Base: second})
	s.emptied(0)
}

// maintainKeepsOpenWindow checks that rows of an open window stay, because the shard may still read them.
func (s *suite[TTx]) maintainKeepsOpenWindow() {
	s.writeOld(20)
	tip := s.tick("")
	all := s.pullAll(store.Window{Tip: tip}, 100)
	s.cover(store.Cursor{Tip: tip, Seq: all[9].Seq})
	s.maintain()
	s.wantIDs(s.pullAll(store.Window{Tip: tip, After: all[9].Seq}, 100), ids(all[10:])...)
	s.cover(store.Cursor{Base: tip})
	s.emptied(0)
}

func (s *suite[TTx]) maintainKeepsYoung() {
	s.writeOld(5)
	young := message("young", 1)
	s.insert(young)
	s.cover(store.Cursor{Base: s.tick("")})
	s.emptied(1)
	s.wantIDs(s.allRows(), young.ID)
}

// maintainNumbersGoOn checks that sequence numbers are not used again after the outbox was emptied. Otherwise
// a cursor above these numbers would skip new rows.
func (s *suite[TTx]) maintainNumbersGoOn() {
	last := int64(0)
	for range 3 {
		s.writeOld(3)
		tip := s.tick("")
		for _, r := range s.pullAll(store.Window{Tip: tip}, 100) {
			if r.Seq <= last {
				s.Fatalf("the number %d was given before, up to %d", r.Seq, last)
			}
			last = r.Seq
		}
		s.cover(store.Cursor{Base: tip})
		s.emptied(0)
		s.d = s.db.Driver(s)
	}
}

// maintainBesideOpenWriter checks that Maintain and a writer do not wait for each other, and that the
// writer's rows are found.
func (s *suite[TTx]) maintainBesideOpenWriter() {
	s.writeOld(10)
	tip := s.tick("")
	s.cover(store.Cursor{Base: tip})
	open := message("open", 1)
	tx := s.db.Begin(s)
	s.write(tx, open)
	done := meanwhile(func() {
		if _, err := s.d.Maintain(s.Context(), store.Maintain{Keep: week()}); err != nil {
			s.Errorf("Maintain during an open writer: %v", err)
		}
	})
	s.comes(done, "the end of maintain beside an open writer")
	s.put(tx, "k", "v")
	s.ok(s.db.Commit(tx), "commit")
	s.wantUser("k", "v")
	_, got := s.rowsSince(tip)
	s.wantIDs(got, open.ID)
	s.emptied(1)
}

func (s *suite[TTx]) maintainBesideOpenHandler() {
	s.writeOld(10)
	s.cover(store.Cursor{Base: s.tick("")})
	m := mark()
	u := s.begin(s.db.Driver(s), store.Intake{Marks: []store.Mark{m},
		Locks: []store.Lock{{Space: "order", Key: "a"}}, Handle: 10 * patience})
	done := meanwhile(func() {
		if _, err := s.d.Maintain(s.Context(), store.Maintain{Keep: week()}); err != nil {
			s.Errorf("Maintain during an open handler: %v", err)
		}
	})
	s.comes(done, "the end of Maintain")
	row := message("a", 1)
	s.commit(u, rows(row))
	s.seen(m, store.Done)
	s.emptied(1)
	s.wantCounts(1, 1, 0)
}

// aged returns the mark of a message that was written that long ago.
func aged(ago time.Duration) store.Mark {
	m := mark()
	m.ID = uuid7.New(time.Now().Add(-ago))
	return m
}

// recentID returns the ID of a message that is newer than all messages that Age makes older. The ID works
// for drivers that move the data, and for drivers that move the clock.
func recentID() string { return aged(-3 * day).ID }

// maintainMarks checks that a mark is kept from its arrival, even for an old message.
func (s *suite[TTx]) maintainMarks() {
	ages := []time.Duration{tooOld, 40 * day, 400 * day}
	var young, old []store.Mark
	for _, d := range ages {
		old = append(old, aged(d))
	}
	s.commit(s.begin(s.d, intake(old...)))
	s.maintain()
	s.wantCounts(0, len(old), 0)
	s.db.Age(s, 31*day)
	for _, d := range append(ages, 0, day, 29*day) {
		young = append(young, aged(d))
	}
	s.commit(s.begin(s.d, intake(young...)))
	s.waitUntil("old marks go", func() bool {
		s.maintain()
		return s.db.Count(s).Marks <= len(young)
	})
	s.wantCounts(0, len(young), 0)
	for _, m := range young {
		s.seen(m, store.Done)
	}
	for _, m := range old {
		s.seen(m, store.Fresh)
		u := s.begin(s.d, intake(m))
		s.found(u, store.TooOld)
		s.rollback(u)
	}
}

// maintainTimelessMarks checks that a mark is kept from its arrival if the ID has no timestamp.
func (s *suite[TTx]) maintainTimelessMarks() {
	timeless := func(id string) store.Mark {
		m := mark()
		m.ID = id
		return m
	}
	old := []store.Mark{timeless("7"), timeless("4c1dbbc5-e1a2-4a2b-9e0c-1a4e8ab1c3f7"), aged(-100 * day)}
	s.commit(s.begin(s.d, intake(old[:2]...)))
	s.maintain()
	s.wantCounts(0, 2, 0)
	s.db.Age(s, 40*day)
	young := timeless("8")
	s.commit(s.begin(s.d, intake(young)))
	s.waitUntil("old marks go", func() bool {
		s.maintain()
		return s.db.Count(s).Marks <= 1
	})
	s.seen(young, store.Done)
	s.seen(old[0], store.Fresh)
	s.wantCounts(0, 1, 0)
	s.commit(s.begin(s.d, intake(old[2]))) // its timestamp is too far ahead
	s.maintain()
	s.seen(old[2], store.Done)
}

func (s *suite[TTx]) maintainNothing() {
	if done := s.maintain(); done.Rows > 0 || done.Marks > 0 {
		s.Errorf("of an empty database maintain emptied %+v", done)
	}
	s.ok(s.d.Check(s.Context(), store.Relay), "check")
	s.insert(message("a", 1))
	m := mark()
	s.apply(store.Effect{Mark: &m})
	_, err := s.d.Maintain(s.Context(), store.Maintain{}) // the defaults
	s.ok(err, "maintain")
	s.wantCounts(1, 1, 0)
	s.ok(s.d.Check(s.Context(), store.App), "check")
}

// maintainBounds checks that marks must be kept longer than the rows that could repeat their messages.
func (s *suite[TTx]) maintainBounds() {
	s.writeOld(1)
	s.cover(store.Cursor{Base: s.tick("")})
	for _, keep := range []store.Retention{{Outbox: 7 * day, Marks: 6 * day}, {Outbox: -day},
		{Outbox: 40 * day}, {Marks: day}} {
		var refused *store.RetentionError
		if done, err := s.d.Maintain(s.Context(), store.Maintain{Keep: keep}); !errors.As(err, &refused) ||
			!store.Incurable(err) || s.d.Outage(err) {
			s.Errorf("maintain of %+v did %+v, %v", keep, done, err)
		}
	}
	s.wantCounts(1, 0, 0)
}

// asideSurvivesOutbox checks that a deferred row is independent of its outbox row.
func (s *suite[TTx]) asideSurvivesOutbox() {
	s.deferRun([]byte("a"), 1, 0)
	s.db.Age(s, 9*day)
	s.cover(store.Cursor{Base: s.tick("")})
	s.emptied(0)
	s.wantCounts(0, 0, 2)
	s.wantRetry("a1")
}
