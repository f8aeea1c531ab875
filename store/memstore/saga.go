package memstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
)

type (
	sagaKey       struct{ name, key string }
	definitionKey struct{ name, hash string }
)

func bySaga(a, b store.Saga) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key))
}

func byRef(a, b store.SagaRef) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key))
}

// saga is a saga as tx sees it.
func (tx *Tx) saga(at sagaKey) (store.Saga, bool) {
	if s, mine := tx.sagas[at]; mine {
		return s, true
	}
	s, there := tx.s.db.sagas[at]
	return s, there
}

// lockSaga reads a saga and locks it. One that is not there is not locked.
func (tx *Tx) lockSaga(ctx context.Context, at sagaKey, until time.Time) (store.Saga, bool, error) {
	if s, there := tx.saga(at); !there {
		return s, false, nil
	}
	if err := tx.s.db.acquire(ctx, tx, at, until); err != nil {
		return store.Saga{}, false, fmt.Errorf("saga: %w", err)
	}
	s, there := tx.saga(at)
	return s, there, nil
}

// StartSaga writes a new saga, or reads the one that is there. A rival that starts it is waited for.
func (s *Store) StartSaga(ctx context.Context, tx *Tx,
	start store.Saga) (stored store.Saga, fresh bool, err error) {
	if tx.s.db != s.db {
		return stored, false, errOther
	}
	at := sagaKey{start.Name, start.Key}
	err = tx.do(func(d *database) error {
		if err := sagarow.Check(&start); err != nil {
			return err
		}
		if err := d.acquire(ctx, tx, at, time.Now().Add(tx.wait)); err != nil {
			return err
		}
		var there bool
		if stored, there = tx.saga(at); there {
			return nil
		}
		tx.wakes(s)
		stored, fresh = start, true
		now := d.now()
		stored.Version, stored.Standing, stored.Due = 1, sagarow.Standing(start.Standing),
			now.Add(start.Lease)
		stored.Lease, stored.Started, stored.Changed, stored.Ended = 0, now, now, time.Time{}
		tx.sagas[at] = stored
		return nil
	})
	if err != nil {
		return store.Saga{}, false, fmt.Errorf("start a saga: %w", err)
	}
	return stored, fresh, nil
}

// LockSaga reads a saga and locks it until tx ends.
func (s *Store) LockSaga(ctx context.Context, tx *Tx, name,
	key string) (stored store.Saga, there bool, err error) {
	if tx.s.db != s.db {
		return stored, false, errOther
	}
	err = tx.do(func(d *database) (err error) {
		if stored, there, err = tx.lockSaga(ctx, sagaKey{name, key}, time.Now().Add(tx.wait)); there {
			stored.Read = d.now()
		}
		return err
	})
	if err != nil {
		return store.Saga{}, false, fmt.Errorf("lock: %w", err)
	}
	return stored, there, nil
}

// standsSaga locks a saga that stands as ref says.
func (tx *Tx) standsSaga(ctx context.Context, ref store.SagaRef, until time.Time) (bool, error) {
	at := sagaKey{ref.Name, ref.Key}
	if s, _ := tx.saga(at); s.Version != ref.Version {
		return false, nil
	}
	s, there, err := tx.lockSaga(ctx, at, until)
	return there && s.Version == ref.Version, err
}

// moveSaga is the guard of an effect, and what it makes of the saga.
func (tx *Tx) moveSaga(ctx context.Context, m *store.SagaMove, until time.Time) error {
	if m == nil {
		return nil
	}
	if err := sagarow.CheckMove(m); err != nil {
		return err
	}
	at := sagaKey{m.Name, m.Key}
	s, there, err := tx.lockSaga(ctx, at, until)
	if err != nil {
		return err
	}
	if !there || s.Version != m.Version {
		return fmt.Errorf("saga %s %s is at %d, not %d: %w", m.Name, m.Key, s.Version, m.Version,
			store.ErrLost)
	}
	tx.sagas[at] = sagarow.Move(s, m, tx.s.db.now())
	return nil
}

// wakes has a handle woken by tx, too.
func (tx *Tx) wakes(s *Store) {
	if s != tx.s && !slices.Contains(tx.by, s) {
		tx.by = append(tx.by, s)
	}
}

// ClaimSagas leases sagas that are due.
func (s *Store) ClaimSagas(ctx context.Context, c store.ClaimSagas) (out store.ClaimedSagas, err error) {
	err = s.enter(ctx, func() error {
		d := s.db
		now, bytes := d.now(), 0
		out.Next = -1
		for _, saga := range d.dueSagas(c.Hashes) {
			at := sagaKey{saga.Name, saga.Key}
			switch {
			case saga.Due.After(now):
				out.Next = soonest(out.Next, saga.Due.Sub(now))
				return nil
			case d.held[at] != nil:
				out.Next = sagarow.Skipped
				continue
			case len(out.Sagas) == c.Limit, len(out.Sagas) > 0 && bytes+
				sagarow.Bytes(&saga) > sagarow.MaxClaim:
				out.Next = 0
				return nil
			}
			bytes += sagarow.Bytes(&saga)
			lapsed := saga.Session
			saga.Version, saga.Session, saga.Due = saga.Version+1, c.Session, now.Add(c.Lease)
			d.sagas[at] = saga
			saga.Lapsed = lapsed
			out.Sagas = append(out.Sagas, saga)
		}
		return nil
	})
	if err != nil {
		return store.ClaimedSagas{}, fmt.Errorf("claim sagas: %w", err)
	}
	return out, nil
}

// soonest is the smaller of two times, of which a negative one is none.
func soonest(a, b time.Duration) time.Duration {
	if a < 0 {
		return b
	}
	return min(a, b)
}

// dueSagas are the sagas of those definitions that are due at some time, the first due first.
func (d *database) dueSagas(hashes []string) (out []store.Saga) {
	for _, s := range d.sagas {
		if !s.Due.IsZero() && slices.Contains(hashes, s.Hash) {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b store.Saga) int { return cmp.Or(a.Due.Compare(b.Due), bySaga(a, b)) })
	return out
}

// NoteSagaDefinitions stores definitions.
func (s *Store) NoteSagaDefinitions(ctx context.Context, ds []store.SagaDefinition) error {
	for i := range ds {
		if err := sagarow.CheckDefinition(&ds[i]); err != nil {
			return err
		}
	}
	return s.enter(ctx, func() error {
		for _, one := range ds {
			one.Noted = s.db.now()
			s.db.definitions[definitionKey{one.Name, one.Hash}] = one
		}
		return nil
	})
}

// sagas lists sagas.
func (s *Store) sagas(ctx context.Context, q store.SagaQuery,
	limit int) ([]store.Saga, *store.SagaRef, error) {
	out := sagarow.Listing{Scan: q.Scan, Limit: limit}
	err := s.enter(ctx, func() error {
		known := store.SagaQuery{Name: q.Name, Key: q.Key, Stuck: q.Stuck, Paused: q.Paused,
			Failing: q.Failing, After: q.After}
		if sagarow.Live(&q) {
			known.Status = q.Status
		}
		n := 0
		for _, saga := range slices.SortedFunc(maps.Values(s.db.sagas), bySaga) {
			if !meansSaga(&known, &saga) {
				continue
			}
			meant := meansSaga(&q, &saga)
			saga.Read = s.db.now()
			if q.Light {
				saga.Input, saga.State = "", ""
			}
			n++
			if out.Add(&saga, n, meant); n == q.Scan {
				break
			}
		}
		return nil
	})
	return out.List, out.To, err
}

func meansSaga(q *store.SagaQuery, s *store.Saga) bool {
	is := func(want, have string) bool { return want == "" || want == have }
	after := q.After == nil || byRef(store.SagaRef{Name: s.Name, Key: s.Key}, *q.After) > 0
	return after && is(q.Name, s.Name) && is(q.Key, s.Key) && is(q.ID, s.ID) && is(q.Step, s.Step) &&
		strings.Contains(s.Error, q.Error) &&
		(len(q.Status) == 0 || slices.Contains(q.Status, s.Status)) && (s.Stuck || !q.Stuck) &&
		(s.Paused || !q.Paused) &&
		(failing(s) || !q.Failing) && (q.StartedBefore.IsZero() || s.Started.Before(q.StartedBefore)) &&
		(q.StartedAfter.IsZero() || s.Started.After(q.StartedAfter))
}

// failing tells of a saga that waits for another attempt.
func failing(s *store.Saga) bool { return s.Ended.IsZero() && !s.Retry.IsZero() }

// listDefinitions lists the definitions of sagas.
func (s *Store) listDefinitions(ctx context.Context) (out []store.SagaDefinition, err error) {
	err = s.enter(ctx, func() error {
		out = slices.Collect(maps.Values(s.db.definitions))
		return nil
	})
	slices.SortFunc(out, func(a, b store.SagaDefinition) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), b.Noted.Compare(a.Noted), cmp.Compare(a.Hash, b.Hash))
	})
	return out, err
}

// countSagas counts sagas that have not ended.
func (s *Store) countSagas(ctx context.Context, b *store.Backlog) error {
	return s.enter(ctx, func() error {
		now, counts := s.db.now(), map[string]store.SagaCounts{}
		for _, saga := range s.db.sagas {
			c := counts[saga.Name]
			c.Name = saga.Name
			if saga.Ended.IsZero() {
				countSaga(&c, &saga, now)
			}
			counts[saga.Name] = c
		}
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			b.Sagas = append(b.Sagas, counts[name])
		}
		b.Tracked = s.db.countTracked()
		return nil
	})
}

func countSaga(c *store.SagaCounts, s *store.Saga, now time.Time) {
	c.Running += one(s.Status == "running")
	c.Compensating += one(s.Status == "compensating")
	c.Stuck += one(s.Stuck)
	c.Paused += one(s.Paused)
	c.Failing += one(failing(s))
	c.Overdue += one(!s.Due.IsZero() && now.Sub(s.Due) > sagarow.Overdue)
	c.Oldest = max(c.Oldest, now.Sub(s.Started))
}

// forgetSagas removes sagas that ended before.
func (d *database) forgetSagas(before time.Time) (n int64) {
	maps.DeleteFunc(d.sagas, func(at sagaKey, s store.Saga) bool {
		gone := d.held[at] == nil && d.outlived(&s, before)
		n += one(gone)
		return gone
	})
	return n
}

// outlived tells of a saga that ended before, and that no parent may undo yet.
func (d *database) outlived(s *store.Saga, before time.Time) bool {
	if s.Ended.IsZero() || !s.Ended.Before(before) {
		return false
	}
	name, key, id := sagarow.Parent(s.Origin)
	parent, there := d.sagas[sagaKey{name, key}]
	return !there || parent.ID != id || !parent.Ended.IsZero()
}
