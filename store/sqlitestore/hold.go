package sqlitestore

import (
	"context"
	"database/sql"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// HoldEntities adds a saga to the queue of each entity. It returns true if the saga is at the front of all
// queues.
func (s *Store) HoldEntities(ctx context.Context, tx *sql.Tx, h store.EntityHold) (front bool, err error) {
	x, u, err := s.sessionOf(ctx, tx)
	given := map[entity]int64{}
	if err == nil && u != nil {
		given = u.given
	}
	front = true
	for i := 0; err == nil && i < len(h.Entities); i++ {
		e, is := h.Entities[i], false
		if _, err = lockEntity(ctx, x, e, given); err == nil {
			is, err = holdEntity(ctx, x, &h, e)
		}
		front = front && is
	}
	return front && err == nil, sqlexec.Failed("hold entities", err)
}

// QueueState reports whether holder is in a queue, and whether it is at the front of all its queues.
func (s *Store) QueueState(ctx context.Context, tx *sql.Tx, holder string) (waits, front bool, err error) {
	x, _, err := s.sessionOf(ctx, tx)
	if err == nil {
		waits, front, err = queueState(ctx, x, holder)
	}
	return waits, front, sqlexec.Failed("read places in line", err)
}

// FreeEntities removes a holder from all queues.
func (s *Store) FreeEntities(ctx context.Context, tx *sql.Tx, holder string) error {
	x, u, err := s.sessionOf(ctx, tx)
	if err == nil {
		err = freeEntities(ctx, x, holder)
	}
	if err != nil {
		return sqlexec.Failed("free entities", err)
	}
	s.wakeEngines(u)
	return nil
}

// EntityHolders returns the first saga in the queue of each entity. The queues do not change before tx ends,
// because SQLite has one writer.
func (s *Store) EntityHolders(ctx context.Context, tx *sql.Tx, es ...store.Lock) ([]store.Hold, error) {
	x, _, err := s.sessionOf(ctx, tx)
	var out []store.Hold
	if err == nil {
		out, err = entityHolders(ctx, x, es)
	}
	return out, sqlexec.Failed("list the holders of entities", err)
}
