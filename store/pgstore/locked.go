package pgstore

import (
	"cmp"
	"context"
	"time"

	"github.com/skald-go/skald/store"
)

// entityPages is how many pages of the table of entities are looked through for those that are locked.
const entityPages = 1000

// locks lists entities that are locked, and keys that are reserved: one round trip.
func (c *core) locks(ctx context.Context, q store.LockQuery) (out store.Locks, err error) {
	out.Told = true
	limit := int32(cmp.Or(q.Limit, defaultLimit))
	args := []any{(*string)(nil), []byte(nil)}
	if q.Entity != nil {
		args = lockArgs(*q.Entity)
	}
	entities := c.call("ListLocked", append(args, int64(entityPages), limit)...)
	entities.scan = func(row scanner) error {
		var e store.LockedEntity
		var key blob
		var since int64
		err := row.Scan(&e.Unnamed, &e.Space, &key, &e.Version, &e.Holder, &since, &e.Waiting)
		if e.Key, e.Since = string(key), past(since); since < 0 {
			e.Since = -1
		}
		handles(&e.Space, &e.Key)
		out.Entities = append(out.Entities, e)
		return err
	}
	reserved := c.call("ListReserved", name(q.Consumer), limit)
	if q.Consumer == "" {
		reserved.args[0] = ""
	}
	reserved.scan = func(row scanner) error {
		var r store.ReservedKey
		var since, left int64
		err := row.Scan(&r.Consumer, &r.Source, &r.ID, &since, &left)
		handles(&r.Consumer, &r.Source, &r.ID)
		r.Since, r.Left = past(since), past(left)
		out.Reserved = append(out.Reserved, r)
		return err
	}
	err = c.short(ctx, "list locks", c.call("PlanOnce"), entities, c.call("ManyEntities", int64(entityPages)).into(&out.Part), reserved)
	if err != nil {
		return store.Locks{}, err
	}
	return out, nil
}

// waiting lists rows of the outbox that are not published: one statement.
func (c *core) waiting(ctx context.Context, most int) (out []store.WaitingRow, err error) {
	list := c.call("ListWaiting", int32(most), int32(store.WaitingScan))
	list.scan = func(row scanner) error {
		var w store.WaitingRow
		var key blob
		var at, age int64
		err := row.Scan(&w.Seq, &w.Shard, &w.ID, &w.Topic, &w.Type, &key, &at, &age, &w.Deferred, &w.Attempts, &w.LastError)
		w.Key, w.Written, w.Age = key, time.UnixMicro(at).UTC(), past(age)
		out = append(out, w)
		return err
	}
	if err := c.short(ctx, "list rows that wait", c.call("PlanOnce"), list); err != nil {
		return nil, err
	}
	return out, nil
}
