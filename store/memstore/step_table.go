// The files step*.go have the steps of sagas at their consumers. The methods of stepTable and stepView need
// no locks and never wait, because the caller has locked the steps.

package memstore

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

// stepTable has all steps, and the floors of their consumers.
type stepTable struct {
	rows   map[stepKey]stepRow
	floors map[floor]time.Time
}

type (
	// stepKey is the lock of a step.
	stepKey struct{ consumer, saga, name, occurrence string }
	stepRow struct {
		store.Step
		by          store.Identity // the message that undid or barred the step
		at, changed time.Time
	}
	// floor identifies the floor of a step of a consumer.
	floor struct{ consumer, name string }
)

// kept reports whether a message is parked or dead, and whether it is a dead letter.
type kept func(markKey) (dead, kept bool)

// newStep returns an empty table.
func newStep() *stepTable {
	return &stepTable{rows: map[stepKey]stepRow{}, floors: map[floor]time.Time{}}
}

// stepKeyOf returns the key of a step.
func stepKeyOf(s *store.Step) stepKey { return stepKey{s.Consumer, s.Saga, s.Name, s.Occurrence} }

// stepByKey is the lock order of steps, which prevents deadlocks.
func stepByKey(a, b store.Step) int {
	return cmp.Or(cmp.Compare(a.Consumer, b.Consumer), cmp.Compare(a.Saga, b.Saga),
		cmp.Compare(a.Name, b.Name), cmp.Compare(a.Occurrence, b.Occurrence))
}

// View returns the steps for a transaction.
func (ss *stepTable) View() stepView { return stepView{newView(ss.rows), ss} }

// Rows returns all steps, in order.
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
		if one := r.record(kept); selectsStep(q, &one) {
			out = append(out, one)
		}
	}
	slices.SortFunc(out, func(a, b store.StepRecord) int { return stepByKey(a.Step, b.Step) })
	return out[:min(len(out), limit)]
}

// selectsStep reports whether q selects r.
func selectsStep(q *store.StepQuery, r *store.StepRecord) bool {
	is := func(want, have string) bool { return want == "" || want == have }
	if q.Sagas != nil && (!slices.Contains(q.Consumers, r.Consumer) || !slices.Contains(q.Sagas, r.Saga)) {
		return false
	}
	return is(q.Consumer, r.Consumer) && is(q.Saga, r.Saga) && is(q.OutsideKey, r.OutsideKey) &&
		(q.State == store.StepAbsent || q.State == r.State && q.Dropped == r.Dropped)
}

// record returns a step and its history. It also looks for the message of a dead step, because the step keeps
// its state after an operator drops the dead letter.
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

// message returns the key of the message that took the step or waits to take it.
func (r stepRow) message() markKey { return markKey{Consumer: r.Consumer, Identity: r.Identity} }

// Forget deletes the steps that were stored before the cutoff, if their saga also began before the cutoff. It
// raises the floors of the deleted steps. It keeps a step if it is locked, if its call is in progress, if its
// message is parked or dead, or if the begin of its saga is unknown.
func (ss *stepTable) Forget(cutoff time.Time, kept kept, locked func(stepKey) bool) (n int64) {
	maps.DeleteFunc(ss.rows, func(key stepKey, r stepRow) bool {
		if locked(key) || !r.deletable(cutoff, kept) {
			return false
		}
		if of := (floor{key.consumer, key.name}); ss.floors[of].Before(cutoff) {
			ss.floors[of] = cutoff
		}
		n++
		return true
	})
	return n
}

// Leaving returns the number of steps that Forget would delete.
func (ss *stepTable) Leaving(cutoff time.Time, kept kept, locked func(stepKey) bool) (n int64) {
	for key, r := range ss.rows {
		if !locked(key) && r.deletable(cutoff, kept) {
			n++
		}
	}
	return n
}

func (r stepRow) deletable(cutoff time.Time, kept kept) bool {
	_, there := kept(r.message())
	return !there && r.State != store.StepCalling && !r.Begun.IsZero() && r.Begun.Before(cutoff) &&
		r.at.Before(cutoff)
}

// Belonging adds the numbers of the consumer's steps and floors to b.
func (ss *stepTable) Belonging(consumer string, b *store.ConsumerRows) {
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

// Rename moves the rows of a consumer to another name.
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
