package memstore

import (
	"cmp"
	"context"

	"github.com/skald-go/skald/store"
)

// defaultLimit is the number of entries in a list if the query sets no limit.
const defaultLimit = 1000

// List implements store.Operator. It runs each query that l asks for.
func (s *Store) List(ctx context.Context, l store.List) (out store.Listed, err error) {
	err = s.enter(ctx, func() error {
		s.db.list(&l, &out)
		return nil
	})
	return out, err
}

func (d *database) list(l *store.List, out *store.Listed) {
	now := d.now()
	if q := l.Parked; q != nil {
		out.Parked, out.ParkedTo = d.kept.List(*q, cmp.Or(q.Limit, defaultLimit), now)
	}
	if q := l.Quarantined; q != nil {
		out.Quarantined = d.quarantine.List(q, min(cmp.Or(q.Limit, defaultLimit), defaultLimit))
	}
	if q := l.Steps; q != nil {
		out.Steps = d.steps.List(q, d.kept.Find, cmp.Or(q.Limit, defaultLimit))
	}
	if q := l.Tracked; q != nil {
		out.Tracked = d.tracked.List(q, cmp.Or(q.Limit, defaultLimit), now)
	}
	if q := l.Sagas; q != nil {
		out.Sagas, out.SagasTo = d.sagas.List(*q, cmp.Or(q.Limit, defaultLimit), now)
	}
	if l.Definitions {
		out.Definitions = d.sagas.Definitions()
	}
	if l.Payloads {
		out.Payloads = d.outbox.Payloads()
	}
	if q := l.Locks; q != nil {
		out.Locks = d.locks(q, cmp.Or(q.Limit, defaultLimit))
	}
	if q := l.Holds; q != nil {
		out.Holds = d.sagas.Holds(*q, cmp.Or(q.Limit, defaultLimit))
	}
	if l.Waiting > 0 {
		out.Waiting = d.outbox.Waiting(l.Waiting, now)
	}
	if q := l.Written; q != nil {
		out.Written = d.outbox.Written(q, cmp.Or(q.Limit, defaultLimit))
	}
	if q := l.Finished; q != nil {
		out.Finished = d.marks.Finished(q, cmp.Or(q.Limit, defaultLimit))
	}
}

// Audits lists the actions of operators.
func (s *Store) Audits(ctx context.Context, q store.AuditQuery) (out []store.Audit, err error) {
	err = s.enter(ctx, func() error {
		out = s.db.audit.List(&q, cmp.Or(q.Limit, defaultLimit))
		return nil
	})
	return out, err
}

// Status counts the records of the database.
func (s *Store) Status(ctx context.Context, q store.StatusQuery) (out store.Status, err error) {
	err = s.enter(ctx, func() error {
		d, now := s.db, s.db.now()
		if q.Backlog {
			out.Backlog = d.backlog()
		}
		if q.ParkedOf != "" {
			out.Parked = d.kept.Keeping(q.ParkedOf, now)
			out.Quarantined = d.quarantine.Waiting(q.ParkedOf)
		}
		if q.Unhandled {
			out.Unhandled = d.kept.Unhandled()
			d.consumers.SetHeartbeats(out.Unhandled, now)
		}
		if q.Retention {
			out.Retention = d.keeps
		}
		if q.Outbox {
			out.Outbox = d.outbox.Status(now)
		}
		if q.Sagas {
			out.Sagas, out.Tracked = d.sagas.Count(now), d.tracked.Count(now)
		}
		return nil
	})
	return out, err
}
