package query

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// Claim claims due sagas in one round trip. It writes nothing if no sagas are due.
func (c *Sagas) Claim(ctx context.Context, w store.ClaimRequest) (out store.Claimed, err error) {
	out.Next = -1
	hashes := slices.Compact(slices.Sorted(slices.Values(w.Sagas.Hashes)))
	var due, next *int64
	was := map[store.SagaRef]int64{}
	claim := c.pg.Call("ClaimSagas", hashes, int64(w.Sagas.Limit), w.Session, w.Lease.Microseconds(),
		int64(sagarow.MaxClaim))
	claim.Scan = func(row sqlexec.Scanner) error {
		var at int64
		var found, in *int64
		var lapsed string
		s, err := scanSaga(row, &at, &lapsed, &found, &in)
		s.Lapsed, s.Read = lapsed, time.Time{}
		if found != nil {
			due, next = found, in
		} else if err == nil {
			out.Sagas = append(out.Sagas, s)
			was[ref(&s)] = at
		}
		return err
	}
	if err := c.pg.Short(ctx, "claim sagas", c.pg.Call("Walk"), claim); err != nil {
		return store.Claimed{}, err
	}
	slices.SortFunc(out.Sagas, func(a, b store.Saga) int {
		return cmp.Or(cmp.Compare(was[ref(&a)], was[ref(&b)]), bySaga(ref(&a), ref(&b)))
	})
	if next != nil {
		out.Next = max(time.Duration(*next)*time.Microsecond, 0)
	}
	if due != nil && int(*due) > len(out.Sagas) {
		out.Next = sooner(out.Next, leftOver(out.Sagas, w.Sagas.Limit))
	}
	return out, nil
}

func ref(s *store.Saga) store.SagaRef { return store.SagaRef{Name: s.Name, Key: s.Key} }

// sooner returns the shorter of two times. A negative a means that there is only b.
func sooner(a, b time.Duration) time.Duration {
	if a < 0 {
		return b
	}
	return min(a, b)
}

// leftOver returns the time until the next claim, if a claim did not return all due sagas. If the claim
// reached a limit, the time is 0. Otherwise other transactions have locked these sagas, and the time is a
// short delay.
func leftOver(claimed []store.Saga, limit int) time.Duration {
	bytes := 0
	for i := range claimed {
		bytes += sagarow.Bytes(&claimed[i])
	}
	if len(claimed) >= limit || bytes > sagarow.MaxClaim-2*sagarow.MaxData {
		return 0
	}
	return sagarow.Skipped
}

// NoteDefinitions returns the call that stores definitions of sagas.
func (c *Sagas) NoteDefinitions(ds []store.SagaDefinition) ([]sqlexec.Call, error) {
	if len(ds) == 0 {
		return nil, nil
	}
	known := map[[2]string]string{}
	for i := range ds {
		if err := sagarow.CheckDefinition(&ds[i]); err != nil {
			return nil, err
		}
		known[[2]string{ds[i].Name, ds[i].Hash}] = ds[i].Written
	}
	var keys [][2]string
	for k := range known {
		keys = append(keys, k)
	}
	slices.SortFunc(keys,
		func(a, b [2]string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	var names, hashes, written []string
	for _, k := range keys {
		names, hashes, written = append(names, k[0]), append(hashes, k[1]), append(written, known[k])
	}
	return []sqlexec.Call{c.pg.Call("NoteSagaDefinitions", names, hashes, written)}, nil
}

// List lists sagas. It also returns the last examined saga if the limit Scan ended the list.
func (c *Sagas) List(ctx context.Context, q store.SagaQuery,
	limit int) ([]store.Saga, *store.SagaRef, error) {
	var name, key *string
	if q.After != nil {
		name, key = new(sqlexec.StorableText(q.After.Name)), new(sqlexec.StorableText(q.After.Key))
	}
	var statuses []string
	for _, s := range q.Status {
		statuses = append(statuses, sqlexec.StorableText(s))
	}
	var scan *int64
	if n := sagarow.Within(&q, limit); n > 0 {
		scan = new(int64(n))
	}
	list := c.pg.Call("ListSagas", q.Light, sqlexec.StorableText(q.Name), sqlexec.StorableText(q.Key),
		sqlexec.StorableText(q.ID), statuses, sagarow.Live(&q), q.Stuck, q.Paused,
		q.Failing, sqlexec.StorableText(q.Step), sqlexec.StorableText(q.Error),
		sqlexec.Moment(q.StartedBefore), sqlexec.Moment(q.StartedAfter), name, key, int32(limit), scan)
	calls := []sqlexec.Call{c.pg.Call("PlanOnce"), list}
	switch {
	case !sagarow.OnlyKey(&q): // the frequent lists by key, below, use a cached plan
	case q.Name != "":
		calls = []sqlexec.Call{c.pg.Call("FindSaga", sqlexec.StorableText(q.Name),
			sqlexec.StorableText(q.Key))}
	default:
		calls = []sqlexec.Call{c.pg.Call("ListSagasOfKey", sqlexec.StorableText(q.Key), int32(limit))}
	}
	out := sagarow.Listing{Scan: q.Scan, Limit: limit}
	calls[len(calls)-1].Scan = func(row sqlexec.Scanner) error {
		n, meant := 0, true
		more := []any{&n, &meant}
		if len(calls) == 1 {
			more = nil
		}
		s, err := scanSaga(row, more...)
		out.Add(&s, n, meant)
		return err
	}
	if err := c.pg.Short(ctx, "list sagas", calls...); err != nil {
		return nil, nil, err
	}
	return out.List, out.To, nil
}

// Definitions lists definitions of sagas.
func (c *Sagas) Definitions(ctx context.Context) (out []store.SagaDefinition, err error) {
	list := c.pg.Call("ListSagaDefinitions")
	list.Scan = func(row sqlexec.Scanner) error {
		var d store.SagaDefinition
		err := row.Scan(&d.Name, &d.Hash, &d.Number, &d.Written, &d.Noted)
		d.Noted = d.Noted.UTC()
		out = append(out, d)
		return err
	}
	if err := c.pg.Short(ctx, "list definitions of sagas", list); err != nil {
		return nil, err
	}
	return out, nil
}

// Count counts sagas that have not ended.
func (c *Sagas) Count(ctx context.Context, b *store.Backlog) error {
	b.Sagas, b.Tracked = nil, nil
	count := c.pg.Call("CountSagas", sagarow.Overdue.Microseconds(), sagarow.Left.Microseconds(),
		sagarow.LeftToOthers)
	count.Scan = func(row sqlexec.Scanner) error {
		var n store.SagaCounts
		var oldest, failing int64
		err := row.Scan(&n.Name, &n.Running, &n.Compensating, &n.Stuck, &n.Paused, &n.Failing,
			&n.Overdue, &oldest, &failing)
		n.FailingFor = max(time.Duration(failing)*time.Microsecond, 0)
		n.Oldest = max(time.Duration(oldest)*time.Microsecond, 0)
		b.Sagas = append(b.Sagas, n)
		return err
	}
	return c.pg.Short(ctx, "count sagas", c.pg.Call("Walk"), count, c.trackedCounts(&b.Tracked))
}
