package memstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore/internal/mark"
)

// steps lists steps.
func (s *Store) steps(ctx context.Context, q store.StepQuery) (out []store.StepRecord, err error) {
	err = s.enter(ctx, func() error {
		for _, row := range s.db.steps {
			if r := s.db.record(row); meansStep(&q, &r) {
				out = append(out, r)
			}
		}
		return nil
	})
	slices.SortFunc(out, func(a, b store.StepRecord) int { return byStep(a.Step, b.Step) })
	return out[:min(len(out), cmp.Or(q.Limit, 1000))], err
}

func meansStep(q *store.StepQuery, r *store.StepRecord) bool {
	is := func(want, have string) bool { return want == "" || want == have }
	return is(q.Consumer, r.Consumer) && is(q.Saga, r.Saga) && is(q.OutsideKey, r.OutsideKey) &&
		(q.State == store.StepAbsent || q.State == r.State && q.Dropped == r.Dropped)
}

// record is how a step stands. Whether its dead letter is there tells only the message itself.
func (d *database) record(row stepRow) store.StepRecord {
	r := store.StepRecord{Step: row.Step, By: row.by, At: row.at, Changed: row.changed}
	if r.State != store.StepParked && r.State != store.StepDead {
		return r
	}
	dead, kept := d.kept.Find(mark.Key{Consumer: row.Consumer, Identity: row.Identity})
	r.Dropped, r.State = !kept, store.StepDead
	if kept && !dead {
		r.State = store.StepParked
	}
	return r
}
