package memstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/skald-go/skald/store"
)

// locks lists entities that transactions have locked, and keys that are reserved.
func (s *Store) locks(ctx context.Context, q store.LockQuery) (out store.Locks, err error) {
	out.Told = true
	limit := cmp.Or(q.Limit, defaultLimit)
	err = s.enter(ctx, func() error {
		d := s.db
		for l, tx := range d.held {
			if e, ok := l.(entity); ok && tx.over == nil {
				out.Entities = append(out.Entities,
					store.LockedEntity{Lock: store.Lock{Space: e.space, Key: e.key, Version: d.versions[e]},
						Holder: "a transaction of this process", Since: d.now().Sub(tx.began),
						Waiting: tx.waiters})
			}
		}
		if q.Entity != nil && !slices.ContainsFunc(out.Entities,
			func(e store.LockedEntity) bool { return e.Space == q.Entity.Space && e.Key == q.Entity.Key }) {
			if version := d.versions[entity{q.Entity.Space, q.Entity.Key}]; version > 0 {
				out.Entities = append(out.Entities,
					store.LockedEntity{Lock: store.Lock{Space: q.Entity.Space, Key: q.Entity.Key,
						Version: version}})
			}
		}
		for key, r := range d.reserved {
			if q.Consumer == "" || q.Consumer == key.Consumer {
				out.Reserved = append(out.Reserved, store.ReservedKey{Consumer: key.Consumer,
					Identity: key.Identity, Since: d.now().Sub(r.at), Left: max(r.until.Sub(d.now()), 0)})
			}
		}
		return nil
	})
	slices.SortFunc(out.Entities, func(a, b store.LockedEntity) int {
		return cmp.Or(cmp.Compare(a.Space, b.Space), cmp.Compare(a.Key, b.Key))
	})
	slices.SortFunc(out.Reserved, func(a, b store.ReservedKey) int {
		return cmp.Or(cmp.Compare(a.Consumer, b.Consumer), cmp.Compare(a.Source, b.Source),
			cmp.Compare(a.ID, b.ID))
	})
	out.Entities, out.Reserved = out.Entities[:min(limit, len(out.Entities))],
		out.Reserved[:min(limit, len(out.Reserved))]
	return out, err
}
