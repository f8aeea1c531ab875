package memstore

import (
	"maps"

	"github.com/skald-go/skald/store"
)

// This file has methods for auditors and tests. They return all committed data, also on a killed handle.

// Marked is a stored mark.
type Marked struct {
	store.Mark
	Arrival int64 // number in the order of inserts
}

// Rows returns the outbox, by Seq.
func (s *Store) Rows() []store.Row {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	return s.db.outbox.Rows()
}

// Marks returns all marks, by Arrival.
func (s *Store) Marks() []Marked {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	var out []Marked
	for _, m := range s.db.marks.Rows() {
		out = append(out, Marked{m.Mark, m.Arrival})
	}
	return out
}

// DeferredRows returns all deferred rows, by Seq.
func (s *Store) DeferredRows() []store.DeferredRow {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	return s.db.outbox.Deferred()
}

// Shards returns all shards, by ID.
func (s *Store) Shards() []store.Shard {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	return s.db.outbox.Shards()
}

// User returns the rows of the user's table.
func (s *Store) User() map[string]string {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	return maps.Clone(s.db.user)
}

// Open returns the number of open transactions of this handle.
func (s *Store) Open() int {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	return len(s.open)
}

// AuditLog returns the actions of operators, in order.
func (s *Store) AuditLog() []store.Audit {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	return s.db.audit.Rows()
}
