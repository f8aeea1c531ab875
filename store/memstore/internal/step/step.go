// Package step is the steps of sagas in memory, as their consumers took them, and from when on they are
// forgotten. It is data alone: whoever calls holds the locks of the steps, and nothing here waits.
package step

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore/internal/mark"
	"github.com/skald-go/skald/store/memstore/internal/table"
)

// Steps are all steps, and the floors of their consumers.
type Steps struct {
	rows   map[Key]row
	floors map[floor]time.Time
}

type (
	// A Key is what a step is locked by.
	Key struct{ consumer, saga, name, occurrence string }
	row struct {
		store.Step
		by          store.Identity // of the message that undid or barred it
		at, changed time.Time
	}
	// A floor is kept for each step of a consumer.
	floor struct{ consumer, name string }
)

// Kept tells whether a message is kept, and whether it is a dead letter.
type Kept func(mark.Key) (dead, kept bool)

// New has no steps.
func New() *Steps { return &Steps{rows: map[Key]row{}, floors: map[floor]time.Time{}} }

// KeyOf is the key of a step.
func KeyOf(s *store.Step) Key { return Key{s.Consumer, s.Saga, s.Name, s.Occurrence} }

// ByKey is an order in which no two wait for each other in a circle.
func ByKey(a, b store.Step) int {
	return cmp.Or(cmp.Compare(a.Consumer, b.Consumer), cmp.Compare(a.Saga, b.Saga),
		cmp.Compare(a.Name, b.Name), cmp.Compare(a.Occurrence, b.Occurrence))
}

// View is the steps as a transaction sees them.
func (ss *Steps) View() View { return View{table.See(ss.rows), ss} }

// Rows are all steps, in order.
func (ss *Steps) Rows() (out []store.Step) {
	for _, r := range ss.rows {
		out = append(out, r.Step)
	}
	slices.SortFunc(out, ByKey)
	return out
}

// List lists steps.
func (ss *Steps) List(q *store.StepQuery, kept Kept, limit int) (out []store.StepRecord) {
	for _, r := range ss.rows {
		if one := r.record(kept); means(q, &one) {
			out = append(out, one)
		}
	}
	slices.SortFunc(out, func(a, b store.StepRecord) int { return ByKey(a.Step, b.Step) })
	return out[:min(len(out), limit)]
}

// means tells whether q asks for r.
func means(q *store.StepQuery, r *store.StepRecord) bool {
	is := func(want, have string) bool { return want == "" || want == have }
	return is(q.Consumer, r.Consumer) && is(q.Saga, r.Saga) && is(q.OutsideKey, r.OutsideKey) &&
		(q.State == store.StepAbsent || q.State == r.State && q.Dropped == r.Dropped)
}

// record is how a step stands. Whether its dead letter is there tells only the message itself.
func (r row) record(kept Kept) store.StepRecord {
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
func (r row) message() mark.Key { return mark.Key{Consumer: r.Consumer, Identity: r.Identity} }

// Forget removes the steps of sagas that began before, if they came before, too, and raises the floors. One
// that is under way or locked stays, and so does one whose message is kept, or of which nobody said when its
// saga began.
func (ss *Steps) Forget(before time.Time, kept Kept, locked func(Key) bool) (n int64) {
	maps.DeleteFunc(ss.rows, func(key Key, r row) bool {
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
func (ss *Steps) Leaving(before time.Time, kept Kept, locked func(Key) bool) (n int64) {
	for key, r := range ss.rows {
		if !locked(key) && r.leaves(before, kept) {
			n++
		}
	}
	return n
}

func (r row) leaves(before time.Time, kept Kept) bool {
	_, there := kept(r.message())
	return !there && r.State != store.StepCalling && !r.Begun.IsZero() && r.Begun.Before(before) &&
		r.at.Before(before)
}

// Belonging counts what a consumer has here into b.
func (ss *Steps) Belonging(consumer string, b *store.Belongings) {
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
func (ss *Steps) Rename(was, is string) {
	table.Move(ss.rows, func(k Key, r row) (Key, row, bool) {
		of := k.consumer == was
		k.consumer, r.Consumer = is, is
		return k, r, of
	})
	table.Move(ss.floors, func(k floor, at time.Time) (floor, time.Time, bool) {
		return floor{is, k.name}, at, k.consumer == was
	})
}
