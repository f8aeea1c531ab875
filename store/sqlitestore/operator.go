package sqlitestore

import (
	"cmp"
	"context"

	"github.com/skald-go/skald/store"
)

// defaultLimit is the number of entries in a list if the query sets no limit.
const defaultLimit = 1000

// List implements store.Operator. It runs each query that l asks for.
func (s *Store) List(ctx context.Context, l store.List) (out store.Listed, err error) {
	if l.Parked != nil {
		out.Parked, out.ParkedTo, err = parkedList(ctx, s.run, *l.Parked,
			cmp.Or(l.Parked.Limit, defaultLimit))
	}
	if err == nil && l.Quarantined != nil {
		out.Quarantined, err = s.quarantined(ctx, *l.Quarantined)
	}
	if err == nil && l.Steps != nil {
		out.Steps, err = s.steps(ctx, *l.Steps)
	}
	if err == nil && l.Tracked != nil {
		out.Tracked, err = s.sagas.Tracked(ctx, *l.Tracked)
	}
	if err == nil && l.Sagas != nil {
		out.Sagas, out.SagasTo, err = s.sagas.List(ctx, *l.Sagas, cmp.Or(l.Sagas.Limit, defaultLimit))
	}
	if err == nil && l.Definitions {
		out.Definitions, err = s.sagas.Definitions(ctx)
	}
	if err == nil && l.Payloads {
		out.Payloads, err = s.outbox.Payloads(ctx)
	}
	if err == nil && l.Locks != nil {
		out.Locks, err = s.locks(ctx, *l.Locks)
	}
	if err == nil && l.Holds != nil {
		out.Holds, err = s.sagas.Holds(ctx, *l.Holds)
	}
	if err == nil && l.Waiting > 0 {
		out.Waiting, err = s.outbox.Waiting(ctx, l.Waiting)
	}
	if err == nil && l.Written != nil {
		out.Written, err = s.outbox.Written(ctx, l.Written)
	}
	if err == nil && l.Finished != nil {
		out.Finished, err = s.finished(ctx, l.Finished)
	}
	return out, err
}

// Audits lists the actions of operators.
func (s *Store) Audits(ctx context.Context, q store.AuditQuery) ([]store.Audit, error) {
	return list(ctx, s.run, q)
}

// Status counts the records of the database.
func (s *Store) Status(ctx context.Context, q store.StatusQuery) (out store.Status, err error) {
	if q.Backlog {
		out.Backlog, err = s.backlog(ctx)
	}
	if err == nil && q.ParkedOf != "" {
		out.Parked, out.Quarantined, err = keeping(ctx, s.run, q.ParkedOf)
	}
	if err == nil && q.Unhandled {
		out.Unhandled, err = s.leftKinds(ctx)
	}
	if err == nil && q.Retention {
		out.Retention, err = s.steward.Keeps(ctx)
	}
	if err == nil && q.Outbox {
		out.Outbox, err = s.outbox.Status(ctx)
	}
	if err == nil && q.Sagas {
		err = s.sagas.Count(ctx, &out.Backlog)
	}
	return out, err
}
