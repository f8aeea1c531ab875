package memstore

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

// sagaEntity is an entity with a queue of sagas.
type sagaEntity struct{ Space, Key string }

// place is a saga's place in the queue for an entity. The first saga in the queue holds the entity.
type place struct {
	holder string
	saga   sagaKey
	since  time.Time
}

func (p place) of(holder string) bool { return p.holder == holder }

// HoldEntity adds a saga to the queue of a locked entity, unless the saga is already there. It returns true
// if the saga is at the front.
func (v *sagaView) HoldEntity(h *store.EntityHold, e store.Lock, now time.Time) (front bool) {
	at := sagaEntity{e.Space, e.Key}
	line, _ := v.lines.Get(at)
	if !slices.ContainsFunc(line, func(p place) bool { return p.of(h.Holder) }) {
		line = append(slices.Clone(line), place{h.Holder, sagaKeyOf(h.Saga.Name, h.Saga.Key), now})
		v.lines.Put(at, line)
		v.entered = append(v.entered, at)
	}
	return line[0].of(h.Holder)
}

// Lines returns the entities with holder in their queues.
func (v *sagaView) Lines(holder string) (out []sagaEntity) {
	for _, at := range append(slices.Collect(maps.Keys(v.all)), v.entered...) {
		line, _ := v.lines.Get(at)
		waits := slices.ContainsFunc(line, func(p place) bool { return p.of(holder) })
		if waits && !slices.Contains(out, at) {
			out = append(out, at)
		}
	}
	return out
}

// Leave removes a holder from a locked queue. If another saga becomes the first, Leave returns that saga and
// true.
func (v *sagaView) Leave(at sagaEntity, holder string) (next sagaKey, is bool) {
	line, _ := v.lines.Get(at)
	first := len(line) > 0 && line[0].of(holder)
	line = slices.DeleteFunc(slices.Clone(line), func(p place) bool { return p.of(holder) })
	v.lines.Put(at, line)
	v.left = append(v.left, at)
	if len(line) == 0 || !first {
		return next, false
	}
	return line[0].saga, true
}

// Wake makes a saga due, unless it has ended. It also changes the version, so a process that runs the saga
// reads it again.
func (v *sagaView) Wake(at sagaKey, now time.Time) {
	if s, there := v.Get(at); there && s.Ended.IsZero() {
		s.Version, s.Session, s.Due = s.Version+1, "", now
		v.Put(at, s)
	}
}

// Holder returns the first saga in the queue of an entity. It returns false for an empty queue.
func (v *sagaView) Holder(e store.Lock) (h store.Hold, found bool) {
	line, _ := v.lines.Get(sagaEntity{e.Space, e.Key})
	if len(line) == 0 {
		return h, false
	}
	return hold(sagaEntity{e.Space, e.Key}, line[:1], 0), true
}

func hold(at sagaEntity, line []place, before int) store.Hold {
	p := line[before]
	return store.Hold{Space: at.Space, Key: at.Key, Holder: p.holder,
		Saga: store.SagaRef{Name: p.saga.name, Key: p.saga.key}, Since: p.since,
		Before: before, Behind: len(line) - 1 - before}
}

// Holds lists the places of sagas in the queues of entities.
func (ss *sagaTable) Holds(q store.HoldQuery, limit int) (out []store.Hold) {
	at := slices.SortedFunc(maps.Keys(ss.lines), func(a, b sagaEntity) int {
		return cmp.Or(cmp.Compare(a.Space, b.Space), cmp.Compare(a.Key, b.Key))
	})
	for _, at := range at {
		if q.Entity != nil && at != (sagaEntity{q.Entity.Space, q.Entity.Key}) {
			continue
		}
		for i, p := range ss.lines[at] {
			if (q.Holder == "" || p.of(q.Holder)) && len(out) < limit {
				out = append(out, hold(at, ss.lines[at], i))
			}
		}
	}
	return out
}
