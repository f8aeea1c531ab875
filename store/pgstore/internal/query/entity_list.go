package query

import (
	"context"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// entityPages is the maximum number of pages of skald_entity that List searches for locked entities.
const entityPages = 1000

// List lists locked entities and reserved keys: one round trip. The Part of the result is true if the table
// has more pages.
func (c *Entities) List(ctx context.Context, q store.LockQuery, most int) (result store.Locks, err error) {
	result.Supported = true
	limit := int32(most)
	asked := []any{(*string)(nil), []byte(nil)}
	if q.Entity != nil {
		asked = args(*q.Entity)
	}
	entities := c.pg.Call("ListLocked", append(asked, int64(entityPages), limit)...)
	entities.Scan = func(row sqlexec.Scanner) error {
		var e store.LockedEntity
		var key sqlexec.Blob
		var since int64
		err := row.Scan(&e.Unnamed, &e.Space, &key, &e.Version, &e.Holder, &since, &e.Waiting)
		if e.Key, e.Since = string(key), sqlexec.Past(since); since < 0 {
			e.Since = -1
		}
		sqlexec.Handles(&e.Space, &e.Key)
		result.Entities = append(result.Entities, e)
		return err
	}
	reserved := c.pg.Call("ListReserved", sqlexec.Name(q.Consumer), limit)
	if q.Consumer == "" {
		reserved.Args[0] = ""
	}
	reserved.Scan = func(row sqlexec.Scanner) error {
		var r store.ReservedKey
		var since, left int64
		err := row.Scan(&r.Consumer, &r.Source, &r.ID, &since, &left)
		sqlexec.Handles(&r.Consumer, &r.Source, &r.ID)
		r.Since, r.Left = sqlexec.Past(since), sqlexec.Past(left)
		result.Reserved = append(result.Reserved, r)
		return err
	}
	err = c.pg.Short(ctx, "list locks", c.pg.Call("PlanOnce"), entities,
		c.pg.Call("ManyEntities", int64(entityPages)).Into(&result.Part), reserved)
	if err != nil {
		return store.Locks{}, err
	}
	return result, nil
}
