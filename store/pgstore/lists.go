package pgstore

import (
	"cmp"
	"context"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/query"
)

// defaultLimit is the number of entries in a list if the query sets no limit.
const defaultLimit = 1000

// List implements store.Operator. It runs each query that l asks for.
func (c *core) List(ctx context.Context, l store.List) (out store.Listed, err error) {
	ctx = c.patience.Long(ctx)
	if l.Parked != nil {
		out.Parked, out.ParkedTo, err = c.kept.List(ctx, *l.Parked, cmp.Or(l.Parked.Limit, defaultLimit))
	}
	if err == nil && l.Quarantined != nil {
		out.Quarantined, err = c.kept.Quarantined(ctx, *l.Quarantined,
			min(cmp.Or(l.Quarantined.Limit, defaultLimit), defaultLimit))
	}
	if err == nil && l.Steps != nil {
		out.Steps, err = c.steps.List(ctx, *l.Steps, cmp.Or(l.Steps.Limit, defaultLimit))
	}
	if err == nil && l.Tracked != nil {
		out.Tracked, err = c.sagas.ListTracked(ctx, *l.Tracked, cmp.Or(l.Tracked.Limit, defaultLimit))
	}
	if err == nil && l.Sagas != nil {
		out.Sagas, out.SagasTo, err = c.sagas.List(ctx, *l.Sagas, cmp.Or(l.Sagas.Limit, defaultLimit))
	}
	if err == nil && l.Definitions {
		out.Definitions, err = c.sagas.Definitions(ctx)
	}
	if err == nil && l.Payloads {
		out.Payloads, err = c.outbox.Payloads(ctx)
	}
	if err == nil && l.Locks != nil {
		out.Locks, err = c.entities.List(ctx, *l.Locks, cmp.Or(l.Locks.Limit, defaultLimit))
	}
	if err == nil && l.Holds != nil {
		out.Holds, err = c.sagas.Holds(ctx, *l.Holds, cmp.Or(l.Holds.Limit, defaultLimit))
	}
	if err == nil && l.Waiting > 0 {
		out.Waiting, err = c.outbox.Waiting(ctx, l.Waiting)
	}
	if err == nil && l.Written != nil {
		out.Written, err = c.outbox.Written(ctx, l.Written, cmp.Or(l.Written.Limit, defaultLimit))
	}
	if err == nil && l.Finished != nil {
		out.Finished, err = c.marks.Finished(ctx, l.Finished, cmp.Or(l.Finished.Limit, defaultLimit))
	}
	return out, err
}

// Audits lists the actions of operators.
func (c *core) Audits(ctx context.Context, q store.AuditQuery) ([]store.Audit, error) {
	return query.List(c.patience.Long(ctx), c.pg, q, cmp.Or(q.Limit, defaultLimit))
}

// Status counts the records of the database.
func (c *core) Status(ctx context.Context, q store.StatusQuery) (out store.Status, err error) {
	ctx = c.patience.Long(ctx)
	if q.Outbox {
		out.Outbox, err = c.outbox.Status(ctx)
	}
	if err == nil && q.Backlog {
		var read *store.OutboxStatus
		if q.Outbox {
			read = &out.Outbox
		}
		out.Backlog, err = query.Read(ctx, c.pg, read)
	}
	if err == nil && q.ParkedOf != "" {
		out.Parked, out.Quarantined, err = c.kept.Count(ctx, q.ParkedOf)
	}
	if err == nil && q.Unhandled {
		out.Unhandled, err = c.consumers.Unhandled(ctx)
	}
	if err == nil && q.Retention {
		out.Retention, err = c.steward.Keeps(ctx)
	}
	if err == nil && q.Sagas {
		err = c.sagas.Count(ctx, &out.Backlog)
	}
	return out, err
}
