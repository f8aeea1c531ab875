package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// locks lists reserved keys. It lists no locked entities, because in SQLite the only writer locks the whole
// file.
func (s *Store) locks(ctx context.Context, q store.LockQuery) (out store.Locks, err error) {
	p, err := s.run.Prepare(ctx)
	if err != nil {
		return out, sqlexec.Failed("list locks", err)
	}
	if q.Entity != nil {
		e := store.LockedEntity{Lock: store.Lock{Space: q.Entity.Space, Key: q.Entity.Key}}
		switch err := p.Row(ctx, "FindEntity", e.Space, e.Key).Scan(&e.Version); {
		case err == nil:
			out.Entities = []store.LockedEntity{e}
		case !errors.Is(err, sql.ErrNoRows):
			return out, sqlexec.Failed("list locks", err)
		}
	}
	rows, err := s.run.Query(ctx, "ListReserved", q.Consumer, cmp.Or(q.Limit, defaultLimit))
	if err != nil {
		return out, sqlexec.Failed("list locks", err)
	}
	out.Reserved, err = sqlexec.Collect(rows, func(scan func(...any) error) (r store.ReservedKey, err error) {
		var since, left int64
		err = scan(&r.Consumer, &r.Source, &r.ID, &since, &left)
		r.Since, r.Left = sqlexec.Past(since), sqlexec.Past(left)
		return r, err
	})
	return out, sqlexec.Failed("list locks", err)
}
