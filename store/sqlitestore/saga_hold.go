package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// holdEntity adds a saga to the queue of an entity, unless the saga is already there. It returns true if the
// saga is at the front.
func holdEntity(ctx context.Context, x *sqlexec.Session, h *store.EntityHold,
	e store.Lock) (front bool, err error) {
	var holder string
	waits := false
	err = x.Row(ctx, "FirstInLine", e.Space, e.Key, h.Holder).Scan(&holder, &waits)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return false, err
	}
	if !waits {
		_, err := x.Exec(ctx, "StandInLine", e.Space, e.Key, h.Holder, h.Saga.Name, h.Saga.Key)
		if err != nil {
			return false, err
		}
	}
	return holder == "" || holder == h.Holder, nil
}

// queueState reports whether holder is in a queue, and whether it is at the front of all its queues.
func queueState(ctx context.Context, x *sqlexec.Session, holder string) (waits, first bool, err error) {
	err = x.Row(ctx, "QueueState", holder).Scan(&waits, &first)
	return waits, first, err
}

// freeEntities removes a holder from all queues, and wakes the next saga of each queue.
func freeEntities(ctx context.Context, x *sqlexec.Session, holder string) error {
	if _, err := x.Exec(ctx, "WakeNext", holder); err != nil {
		return err
	}
	_, err := x.Exec(ctx, "LeaveLines", holder)
	return err
}

// entityHolders returns the first saga in the queue of each entity.
func entityHolders(ctx context.Context, x *sqlexec.Session, es []store.Lock) (out []store.Hold, err error) {
	for _, e := range es {
		h, err := scanHold(x.Row(ctx, "EntityHolder", e.Space, e.Key).Scan)
		switch {
		case err == nil:
			out = append(out, h)
		case !errors.Is(err, sql.ErrNoRows):
			return nil, err
		}
	}
	return out, nil
}

// Holds lists the places of sagas in the queues of entities.
func (s *sagaTable) Holds(ctx context.Context, q store.HoldQuery) ([]store.Hold, error) {
	var e store.Lock
	if q.Entity != nil {
		e = *q.Entity
	}
	rows, err := s.run.Query(ctx, "ListHolds", q.Holder, e.Space, e.Key, cmp.Or(q.Limit, sagaDefaultLimit))
	if err != nil {
		return nil, sqlexec.Failed("list entities that sagas hold", err)
	}
	out, err := sqlexec.Collect(rows, scanHold)
	return out, sqlexec.Failed("list entities that sagas hold", err)
}

func scanHold(scan func(...any) error) (h store.Hold, err error) {
	var since int64
	err = scan(&h.Space, &h.Key, &h.Holder, &h.Saga.Name, &h.Saga.Key, &since, &h.Before, &h.Behind)
	h.Since = time.UnixMilli(since).UTC()
	return h, err
}
