package storetest

import (
	"time"

	"github.com/skald-go/skald/store"
)

func backlogTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"Empty":       (*suite[TTx]).backlogEmpty,
		"Pending":     (*suite[TTx]).backlogPending,
		"Aside":       (*suite[TTx]).backlogAside,
		"Lanes":       (*suite[TTx]).backlogLanes,
		"Retained":    (*suite[TTx]).backlogRetained,
		"Uncommitted": (*suite[TTx]).backlogUncommitted,
		"Kept":        (*suite[TTx]).backlogKept,
	}
}

func (s *suite[TTx]) backlog() store.Backlog {
	s.Helper()
	b, err := s.d.Backlog(s.Context())
	s.ok(err, "read backlog")
	return b
}

// pending wants that many rows to be pending, and no age if there are none.
func (s *suite[TTx]) pending(n int64) {
	s.Helper()
	if b := s.backlog(); b.Pending != n || n == 0 && b.Oldest != 0 {
		s.Fatalf("the backlog is %+v, want %d pending", b, n)
	}
}

func (s *suite[TTx]) backlogEmpty() {
	if b := s.backlog(); b.Source == "" || b.Pending != 0 || b.Oldest != 0 || b.Aside != 0 || b.Retained != 0 || b.Free == 0 {
		s.Errorf("the backlog of an empty outbox is %+v", b)
	}
}

// Rows are pending until a lane's cursor is behind them, within an open window too.
func (s *suite[TTx]) backlogPending() {
	for i := range 5 {
		m := message("early", i)
		m.Time = time.Now().Add(-time.Hour)
		s.say(m)
	}
	s.pending(5)
	if b := s.backlog(); b.Oldest < 59*time.Minute || b.Oldest > 2*time.Hour {
		s.Errorf("rows that were written an hour ago are %v old", b.Oldest)
	}
	first, rows := s.since("")
	s.pending(5)
	s.cover(store.Cursor{Base: "", Tip: first, Seq: rows[1].Seq})
	s.pending(3)
	s.cover(store.Cursor{Base: first, Tip: first})
	s.pending(0)
	s.say(message("late", 1))
	s.pending(1)
}

func (s *suite[TTx]) backlogAside() {
	s.say(message("a", 1), message("b", 2))
	tip, rows := s.since("")
	s.setAside(store.Aside{Row: rows[0], Attempts: 1, Why: "too large"})
	s.cover(store.Cursor{Base: tip, Tip: tip})
	if b := s.backlog(); b.Pending != 0 || b.Aside != 1 {
		s.Errorf("with a row set aside the backlog is %+v", b)
	}
	s.free(rows[0])
	if b := s.backlog(); b.Pending != 0 || b.Aside != 0 {
		s.Errorf("once it is published the backlog is %+v", b)
	}
}

// Lanes are free until a relay has them, and again when its lease is over or given back.
func (s *suite[TTx]) backlogLanes() {
	all := s.backlog().Free
	if got := len(s.lease(s.d, "one", "1")); got != all {
		s.Errorf("a relay got %d lanes of %d free ones", got, all)
	}
	if b := s.backlog(); b.Free != 0 {
		s.Errorf("%d lanes are free that a relay holds", b.Free)
	}
	s.ask(s.d, store.Ask{Owner: "one", Life: "1", TTL: time.Millisecond})
	s.until("the lanes of a dead relay are free", func() bool { return s.backlog().Free == all })
	s.lease(s.d, "two", "1")
	s.ask(s.d, store.Ask{Owner: "two", Life: "1", Leave: true})
	if b := s.backlog(); b.Free != all {
		s.Errorf("%d of %d lanes are free after the relay left", b.Free, all)
	}
}

func (s *suite[TTx]) backlogRetained() {
	for i := range 3 {
		m := message("old", i)
		m.Time = time.Now().Add(-9 * day)
		s.say(m)
	}
	s.db.Age(s, 9*day)
	if b := s.backlog(); b.Retained < 8*day {
		s.Errorf("of rows that are nine days old the backlog says %v", b.Retained)
	}
	s.cover(store.Cursor{Base: s.tick("")})
	s.emptied(0)
	if b := s.backlog(); b.Retained != 0 {
		s.Errorf("of an empty outbox the backlog says %v", b.Retained)
	}
}

func (s *suite[TTx]) backlogUncommitted() {
	tx := s.db.Begin(s)
	s.write(tx, message("a", 1))
	if s.can.Rivals {
		s.pending(0)
	}
	s.ok(s.db.Rollback(tx), "roll back")
	s.pending(0)
}
