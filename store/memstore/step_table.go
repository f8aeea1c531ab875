// This file is the steps of sagas in memory, as their consumers took them, and from when on they are
// forgotten. It is data alone: whoever calls holds the locks of the steps, and nothing here waits.

package memstore

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

// stepTable are all steps, and the floors of their consumers.
type stepTable struct {
	rows   map[stepKey]stepRow
	floors map[floor]time.Time
}

type (
	// A stepKey is what a step is locked by.
	stepKey struct{ consumer, saga, name, occurrence string }
	stepRow struct {
		store.Step
		by          store.Identity // of the message that undid or barred it
		at, changed time.Time
	}
	// A floor is kept for each step of a consumer.
	floor struct{ consumer, name string }
)

// kept tells whether a message is kept, and whether it is a dead letter.
type kept func(markKey) (dead, kept bool)

// newStep has no steps.
func newStep() *stepTable {
	return &stepTable{rows: map[stepKey]stepRow{}, floors: map[floor]time.Time{}}
}

// stepKeyOf is the key of a step.
func stepKeyOf(s *store.Step) stepKey { return stepKey{s.Consumer, s.Saga, s.Name, s.Occurrence} }

// stepByKey is an order in which no two wait for each other in a circle.
func stepByKey(a, b store.Step) int {
	return cmp.Or(cmp.Compare(a.Consumer, b.Consumer), cmp.Compare(a.Saga, b.Saga),
		cmp.Compare(a.Name, b.Name), cmp.Compare(a.Occurrence, b.Occurrence))
}

// View is the steps as a transaction sees them.
func (ss *stepTable) View() stepView { return stepView{see(ss.rows), ss} }

// Rows are all steps, in order.
func (ss *stepTable) Rows() (out []store.Step) {
	for _, r := range ss.rows {
		out = append(out, r.Step)
	}
	slices.SortFunc(out, stepByKey)
	return out
}

// List lists steps.
func (ss *stepTable) List(q *store.StepQuery, kept kept, limit int) (out []store.StepRecord) {
	for _, r := range ss.rows {
		if one := r.record(kept); stepMeans(q, &one) {
			out = append(out, one)
		}
	}
	slices.SortFunc(out, func(a, b store.StepRecord) int { return stepByKey(a.Step, b.Step) })
	return out[:min(len(out), limit)]
}

// stepMeans tells whether q asks for r.
func stepMeans(q *store.StepQuery, r *store.StepRecord) bool {
	is := func(want, have string) bool { return want == "" || want == have }
	if q.Sagas != nil && (!slices.Contains(q.Consumers, r.Consumer) || !slices.Contains(q.Sagas, r.Saga)) {
		return false
	}
	return is(q.Consumer, r.Consumer) && is(q.Saga, r.Saga) && is(q.OutsideKey, r.OutsideKey) &&
		(q.State == store.StepAbsent || q.State == r.State && q.Dropped == r.Dropped)
}

// record is how a step stands. Whether its dead letter is there tells only the message itself.
func (r stepRow) record(kept kept) store.StepRecord {
	out := store.StepRecord{Step: r.Step, By: r.by, At: r.at, Changed: r.changed}
	if r.State != store.StepParked && r.State != store.StepDead {
		return out
	}
	dead, there := kept(r.message())
	out.Dropped, out.State = !there, store.StepDead
	if there && !dead {
		out.State = store.StepParked
	}
	return out
}

// message is the message that took the step, or waits to.
func (r stepRow) message() markKey { return markKey{Consumer: r.Consumer, Identity: r.Identity} }

// Forget removes the steps of sagas that began before, if they came before, too, and raises the floors. One
// that is under way or locked stays, and so does one whose message is kept, or of which nobody said when its
// saga began.
func (ss *stepTable) Forget(before time.Time, kept kept, locked func(stepKey) bool) (n int64) {
	maps.DeleteFunc(ss.rows, func(key stepKey, r stepRow) bool {
		if locked(key) || !r.leaves(before, kept) {
			return false
		}
		if of := (floor{key.consumer, key.name}); ss.floors[of].Before(before) {
			ss.floors[of] = before
		}
		n++
		return true
	})
	return n
}

// Leaving is how many steps Forget would remove.
func (ss *stepTable) Leaving(before time.Time, kept kept, locked func(stepKey) bool) (n int64) {
	for key, r := range ss.rows {
		if !locked(key) && r.leaves(before, kept) {
			n++
		}
	}
	return n
}

func (r stepRow) leaves(before time.Time, kept kept) bool {
	_, there := kept(r.message())
	return !there && r.State != store.StepCalling && !r.Begun.IsZero() && r.Begun.Before(before) &&
		r.at.Before(before)
}

// Belonging counts what a consumer has here into b.
func (ss *stepTable) Belonging(consumer string, b *store.Belongings) {
	for key := range ss.rows {
		if key.consumer == consumer {
			b.Steps++
		}
	}
	for of := range ss.floors {
		if of.consumer == consumer {
			b.Floors++
		}
	}
}

// Rename gives what a consumer has here to another name.
func (ss *stepTable) Rename(was, is string) {
	move(ss.rows, func(k stepKey, r stepRow) (stepKey, stepRow, bool) {
		of := k.consumer == was
		k.consumer, r.Consumer = is, is
		return k, r, of
	})
	move(ss.floors, func(k floor, at time.Time) (floor, time.Time, bool) {
		return floor{is, k.name}, at, k.consumer == was
	})
}
