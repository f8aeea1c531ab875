package memstore

import (
	"cmp"
	"slices"

	"github.com/skald-go/skald/store"
)

// locks lists locked entities and reserved keys.
func (d *database) locks(q *store.LockQuery, limit int) store.Locks {
	return store.Locks{Supported: true, Entities: d.lockedEntities(q, limit),
		Reserved: d.reservations.List(q.Consumer, limit, d.now())}
}

func (d *database) lockedEntities(q *store.LockQuery, limit int) (out []store.LockedEntity) {
	for l, tx := range d.held {
		if e, ok := l.(entity); ok && tx.over == nil {
			out = append(out,
				store.LockedEntity{Lock: store.Lock{Space: e.space, Key: e.key, Version: d.versions[e]},
					Holder: "a transaction of this process", Since: d.now().Sub(tx.began),
					Waiting: tx.waiters})
		}
	}
	if of := q.Entity; of != nil && !slices.ContainsFunc(out,
		func(e store.LockedEntity) bool { return e.Space == of.Space && e.Key == of.Key }) {
		if version := d.versions[entity{of.Space, of.Key}]; version > 0 {
			out = append(out,
				store.LockedEntity{Lock: store.Lock{Space: of.Space, Key: of.Key, Version: version}})
		}
	}
	slices.SortFunc(out, func(a, b store.LockedEntity) int {
		return cmp.Or(cmp.Compare(a.Space, b.Space), cmp.Compare(a.Key, b.Key))
	})
	return out[:min(limit, len(out))]
}
