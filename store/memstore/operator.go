package memstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/skald-go/skald/store"
)

// defaultLimit is how many a list has at most if it is not said.
const defaultLimit = 1000

// List lists messages that are kept or in quarantine, steps, and sagas.
func (s *Store) List(ctx context.Context, l store.List) (out store.Listed, err error) {
	if l.Kept != nil {
		err = s.enter(ctx, func() error {
			out.Kept, out.KeptTo = s.db.kept.List(*l.Kept, cmp.Or(l.Kept.Limit, defaultLimit), s.db.now())
			return nil
		})
	}
	if err == nil && l.Quarantined != nil {
		out.Quarantined, err = s.quarantined(ctx, *l.Quarantined)
	}
	if err == nil && l.Steps != nil {
		err = s.enter(ctx, func() error {
			out.Steps = s.db.steps.List(l.Steps, s.db.kept.Find, cmp.Or(l.Steps.Limit, defaultLimit))
			return nil
		})
	}
	if err == nil && l.Tracked != nil {
		out.Tracked, err = s.tracked(ctx, *l.Tracked)
	}
	if err == nil && l.Sagas != nil {
		err = s.enter(ctx, func() error {
			out.Sagas, out.SagasTo = s.db.sagas.List(*l.Sagas, cmp.Or(l.Sagas.Limit, defaultLimit),
				s.db.now())
			return nil
		})
	}
	if err == nil && l.Definitions {
		err = s.enter(ctx, func() error {
			out.Definitions = s.db.sagas.Definitions()
			return nil
		})
	}
	if err == nil && l.Payloads {
		err = s.enter(ctx, func() error {
			out.Payloads = s.db.outbox.Payloads()
			return nil
		})
	}
	if err == nil && l.Locks != nil {
		out.Locks, err = s.locks(ctx, *l.Locks)
	}
	if err == nil && l.Waiting > 0 {
		err = s.enter(ctx, func() error {
			out.Waiting = s.db.outbox.Waiting(l.Waiting, s.db.now())
			return nil
		})
	}
	return out, err
}

// Audits lists what operators did.
func (s *Store) Audits(ctx context.Context, q store.AuditQuery) ([]store.Audit, error) {
	limit := cmp.Or(q.Limit, defaultLimit)
	var out []store.Audit
	err := s.enter(ctx, func() error {
		for _, a := range s.db.audit {
			if q.Run != "" && a.Run == q.Run && a.Number > q.After && len(out) < limit {
				out = append(out, a)
			}
		}
		for _, a := range slices.Backward(s.db.audit) {
			if q.Run == "" && (q.Before == 0 || a.Number < q.Before) && len(out) < limit {
				out = append(out, a)
			}
		}
		return nil
	})
	return out, err
}

// Status tells how the database stands.
func (s *Store) Status(ctx context.Context, q store.StatusQuery) (out store.Status, err error) {
	if q.Backlog {
		err = s.enter(ctx, func() error {
			out.Backlog = s.db.backlog()
			return nil
		})
	}
	if err == nil && q.Keeping != "" {
		err = s.enter(ctx, func() error {
			out.Keeping = s.db.kept.Keeping(q.Keeping, s.db.now())
			return nil
		})
	}
	if err == nil && q.Left {
		err = s.enter(ctx, func() error {
			out.Left = s.db.left()
			return nil
		})
	}
	if err == nil && q.Retention {
		out.Retention, err = s.keeps(ctx)
	}
	if err == nil && q.Outbox {
		err = s.enter(ctx, func() error {
			out.Outbox = s.db.outbox.Status(s.db.now())
			return nil
		})
	}
	if err == nil && q.Sagas {
		err = s.enter(ctx, func() error {
			out.Sagas, out.Tracked = s.db.sagas.Count(s.db.now()), s.db.countTracked()
			return nil
		})
	}
	return out, err
}
