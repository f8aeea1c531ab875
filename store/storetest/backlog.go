package storetest

import (
	"errors"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

func backlogTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"Empty":       (*suite[TTx]).backlogEmpty,
		"Pending":     (*suite[TTx]).backlogPending,
		"Aside":       (*suite[TTx]).backlogAside,
		"Shards":      (*suite[TTx]).backlogShards,
		"Retained":    (*suite[TTx]).backlogRetained,
		"Uncommitted": (*suite[TTx]).backlogUncommitted,
		"Kept":        (*suite[TTx]).backlogKept,
		"Progress":    (*suite[TTx]).backlogProgress,
	}
}

func (s *suite[TTx]) backlog() store.Backlog {
	s.Helper()
	b, err := store.ReadBacklog(s.Context(), s.d)
	s.ok(errors.Join(err, b.Uncounted), "read backlog")
	return b
}

// wantPending fails the test unless n rows are pending. If n is 0, the backlog must have no oldest row.
func (s *suite[TTx]) wantPending(n int64) {
	s.Helper()
	if b := s.backlog(); b.Pending != n || n == 0 && b.Oldest != 0 {
		s.Fatalf("the backlog is %+v, want %d pending", b, n)
	}
}

func (s *suite[TTx]) backlogEmpty() {
	if b := s.backlog(); b.Source == "" || b.Pending != 0 || b.Oldest != 0 || b.Deferred != 0 ||
		b.Retained != 0 || b.Free == 0 {
		s.Errorf("the backlog of an empty outbox is %+v", b)
	}
}

// backlogPending checks that rows are pending until a shard's cursor has passed them, also within an open
// window.
func (s *suite[TTx]) backlogPending() {
	for i := range 5 {
		m := message("early", i)
		m.Time = time.Now().Add(-time.Hour)
		s.insert(m)
	}
	s.wantPending(5)
	if b := s.backlog(); b.Oldest < 59*time.Minute || b.Oldest > 2*time.Hour {
		s.Errorf("rows that were written an hour ago are %v old", b.Oldest)
	}
	first, rows := s.rowsSince("")
	s.wantPending(5)
	s.cover(store.Cursor{Base: "", Tip: first, Seq: rows[1].Seq})
	s.wantPending(3)
	s.cover(store.Cursor{Base: first, Tip: first})
	s.wantPending(0)
	s.insert(message("late", 1))
	s.wantPending(1)
}

func (s *suite[TTx]) backlogAside() {
	s.insert(message("a", 1), message("b", 2))
	tip, rows := s.rowsSince("")
	s.setAside(store.DeferredRow{Row: rows[0], Attempts: 1, Why: "too large"})
	s.cover(store.Cursor{Base: tip, Tip: tip})
	if b := s.backlog(); b.Pending != 0 || b.Deferred != 1 {
		s.Errorf("with a deferred row the backlog is %+v", b)
	}
	s.free(rows[0])
	if b := s.backlog(); b.Pending != 0 || b.Deferred != 0 {
		s.Errorf("once it is published the backlog is %+v", b)
	}
}

// backlogShards checks that shards are free until a relay owns them. They are free again when the lease of
// the relay has ended or was released.
func (s *suite[TTx]) backlogShards() {
	all := s.backlog().Free
	if got := len(s.lease(s.d, "one", "1")); got != all {
		s.Errorf("a relay got %d shards of %d free ones", got, all)
	}
	if b := s.backlog(); b.Free != 0 {
		s.Errorf("%d shards are free that a relay holds", b.Free)
	}
	s.ask(s.d, store.LeaseRequest{Owner: "one", Session: "1", TTL: time.Millisecond})
	s.waitUntil("the shards of a dead relay are free", func() bool { return s.backlog().Free == all })
	s.lease(s.d, "two", "1")
	s.ask(s.d, store.LeaseRequest{Owner: "two", Session: "1", Leave: true})
	if b := s.backlog(); b.Free != all {
		s.Errorf("%d of %d shards are free after the relay left", b.Free, all)
	}
}

func (s *suite[TTx]) backlogRetained() {
	for i := range 3 {
		m := message("old", i)
		m.Time = time.Now().Add(-9 * day)
		s.insert(m)
	}
	s.db.Age(s, 9*day)
	if b := s.backlog(); b.Retained < 8*day {
		s.Errorf("Retained of rows that are nine days old is %v", b.Retained)
	}
	s.cover(store.Cursor{Base: s.tick("")})
	s.emptied(0)
	if b := s.backlog(); b.Retained != 0 {
		s.Errorf("Retained of an empty outbox is %v", b.Retained)
	}
}

func (s *suite[TTx]) backlogUncommitted() {
	tx := s.db.Begin(s)
	s.write(tx, message("a", 1))
	if s.can.Rivals {
		s.wantPending(0)
	}
	s.ok(s.db.Rollback(tx), "roll back")
	s.wantPending(0)
}

// backlogProgress checks the state of consumers and relays from another process. A heartbeat is not progress,
// and reading is neither a heartbeat nor progress.
func (s *suite[TTx]) backlogProgress() {
	if b := s.backlog(); len(b.Consumers) != 0 || len(b.Relays) != 0 {
		s.Fatalf("at first there are %+v and %+v", b.Consumers, b.Relays)
	}
	beat := func(b store.Heartbeat) {
		s.Helper()
		_, err := s.d.SyncConsumer(s.Context(), store.SyncRequest{Consumer: consumer, Heartbeat: &b})
		s.ok(err, "note a sign of life")
	}
	one := func() store.Consumer {
		s.Helper()
		all := s.backlog().Consumers
		if len(all) != 1 || all[0].Name != consumer ||
			!slices.Equal(all[0].Topics, []string{"orders", "payments"}) {
			s.Fatalf("the consumers are %+v", all)
		}
		return all[0]
	}
	stands := func(what string, heard, progress time.Duration) {
		s.Helper()
		if c := one(); c.LastHeartbeat < heard || c.LastHeartbeat > heard+patience || c.Progress < progress ||
			c.Progress > progress+patience {
			s.Errorf("%s: last heartbeat %v ago, last progress %v ago; want %v and %v", what, c.LastHeartbeat, c.Progress,
				heard, progress)
		}
	}
	own := []store.Kind{{Topic: "payments", Type: "made"}, {Topic: "orders", Type: "placed"},
		{Topic: "orders", Type: "shipped"}}
	beat(store.Heartbeat{Own: own})
	stands("it is new", 0, 0)
	s.db.Age(s, time.Hour)
	beat(store.Heartbeat{})
	stands("an hour later somebody reads", time.Hour, time.Hour)
	beat(store.Heartbeat{Own: own})
	stands("it gives a sign of life", 0, time.Hour)
	beat(store.Heartbeat{Own: own, Progress: true})
	stands("it gets on", 0, 0)

	shards := s.lease(s.d, "one", "1")
	if b := s.backlog(); len(shards) == 0 || len(b.Relays) != 1 || b.Relays[0].Owner != "one" ||
		b.Relays[0].Progress > patience {
		s.Errorf("a relay with %d shards is listed as %+v", len(shards), b.Relays)
	}
	s.ask(s.d, store.LeaseRequest{Owner: "one", Session: "1", Leave: true})
	if b := s.backlog(); len(b.Relays) != 0 {
		s.Errorf("a relay that left is listed as %+v", b.Relays)
	}
}
