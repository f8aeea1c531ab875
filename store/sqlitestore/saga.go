package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/column"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlrun"
)

// wakes tells of an effect that somebody waits for.
func wakes(e *store.Effect) bool { return len(e.Rows) > 0 || e.Saga != nil }

// scanSaga reads the columns of a saga, and more after them.
func scanSaga(scan func(...any) error, more ...any) (s store.Saga, err error) {
	var since, retry, due, started, changed, ended sql.NullInt64
	err = scan(append([]any{&s.Name, &s.Key, &s.ID, &s.Hash, &s.Input, &s.Fingerprint, &s.Origin, &s.State,
		&s.Version, &s.Status, &s.Stuck, &s.Paused,
		&s.Step, &s.Error, &s.Failed, &since, &retry, &s.Session, &due, &started, &changed, &ended},
		more...)...)
	s.Since, s.Retry, s.Due, s.Started, s.Changed, s.Ended = column.OfMillis(since), column.OfMillis(retry),
		column.OfMillis(due),
		column.OfMillis(started), column.OfMillis(changed), column.OfMillis(ended)
	return s, err
}

// StartSaga writes a new saga, or reads the one that is there.
func (s *Store) StartSaga(ctx context.Context, tx *sql.Tx,
	start store.Saga) (stored store.Saga, fresh bool, err error) {
	if err := sagarow.Check(&start); err != nil {
		return stored, false, err
	}
	x, u, err := s.within(ctx, tx)
	if err != nil {
		return stored, false, sqlrun.Failed("start a saga", err)
	}
	at := sagarow.Standing(start.Standing)
	n, err := x.Count(ctx, "StartSaga", start.Name, start.Key, start.ID, start.Hash, start.Input,
		start.Fingerprint, start.Origin, start.State, at.Status,
		at.Stuck, at.Paused, at.Step, at.Error, at.Failed, column.Millis(at.Since), column.Millis(at.Retry),
		start.Session,
		start.Lease.Milliseconds())
	if err == nil {
		stored, err = scanSaga(x.Row(ctx, "FindSaga", start.Name, start.Key).Scan)
	}
	if err != nil {
		return store.Saga{}, false, sqlrun.Failed("start a saga", err)
	}
	if fresh = n == 1; fresh {
		s.moved(u)
	}
	return stored, fresh, nil
}

// moved wakes whoever waits for sagas: at once in a transaction of the caller's.
func (s *Store) moved(u *unit) {
	if u != nil {
		u.wrote = true
		return
	}
	s.run.Wake()
}

// LockSaga reads a saga. SQLite has one writer: nothing need be locked but the file, for which the
// transaction writes.
func (s *Store) LockSaga(ctx context.Context, tx *sql.Tx, name,
	key string) (stored store.Saga, there bool, err error) {
	x, _, err := s.within(ctx, tx)
	if err == nil {
		_, err = x.Exec(ctx, "LockSaga", name, key)
	}
	if err == nil {
		stored, err = scanSaga(x.Row(ctx, "FindSaga", name, key).Scan)
		stored.Read = time.Now().UTC() // the clock of the statements, too
	}
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return store.Saga{}, false, nil
	case err != nil:
		return store.Saga{}, false, sqlrun.Failed("lock a saga", err)
	}
	return stored, true, nil
}

func standsSaga(ctx context.Context, x *sqlrun.Session, r store.SagaRef) (stands bool, err error) {
	if err := x.Row(ctx, "StandsSaga", r.Name, r.Key, r.Version).Scan(&stands); err != nil {
		return false, fmt.Errorf("look at a saga: %w", err)
	}
	return stands, nil
}

// moveSaga is the guard of an effect, and what becomes of its saga.
func moveSaga(ctx context.Context, x *sqlrun.Session, m *store.SagaMove) error {
	if m == nil {
		return nil
	}
	if err := sagarow.CheckMove(m); err != nil {
		return err
	}
	wake := int64(-1)
	if m.Wake >= 0 {
		wake = m.Wake.Milliseconds()
	}
	at := sagarow.Standing(m.Standing)
	n, err := x.Count(ctx, "MoveSaga", m.Name, m.Key, m.Version, m.Hash, m.State, at.Status, at.Stuck,
		at.Paused, at.Step, at.Error, at.Failed,
		column.Millis(at.Since), column.Millis(at.Retry), m.Release, wake, m.Final, m.Lease.Milliseconds())
	if err != nil {
		return fmt.Errorf("move a saga: %w", err)
	}
	if n == 0 {
		return fmt.Errorf("saga %s %s is not at %d: %w", m.Name, m.Key, m.Version, store.ErrLost)
	}
	return nil
}

// A dueSaga is one that may be claimed.
type dueSaga struct {
	name, key string
	due       int64
	session   string // whose lease is over
	bytes     int
}

func scanDue(scan func(...any) error) (d dueSaga, err error) {
	err = scan(&d.name, &d.key, &d.due, &d.session, &d.bytes)
	return d, err
}

// ClaimSagas leases sagas that are due; it writes nothing where none is.
func (s *Store) ClaimSagas(ctx context.Context, c store.ClaimSagas) (out store.ClaimedSagas, err error) {
	hashes := slices.Compact(slices.Sorted(slices.Values(c.Hashes)))
	some, next, err := s.lookSagas(ctx, hashes)
	if err == nil && some {
		err = s.run.Alone(ctx, func(ctx context.Context, x *sqlrun.Session) (err error) {
			out.Sagas, some, err = claimSagas(ctx, x, c, hashes)
			return err
		})
	}
	if err != nil {
		return store.ClaimedSagas{}, sqlrun.Failed("claim sagas", err)
	}
	if out.Next = next; some {
		out.Next = 0
	}
	return out, nil
}

// lookSagas tells whether some sagas are due, and how long it is until another one is.
func (s *Store) lookSagas(ctx context.Context, hashes []string) (some bool, next time.Duration, err error) {
	next = -1
	p, err := s.run.Prepare(ctx)
	if err != nil {
		return false, next, err
	}
	for _, hash := range hashes {
		var in sql.NullInt64
		var due int
		if err := p.Row(ctx, "NextSaga", hash).Scan(&in, &due); err != nil {
			return false, next, err
		}
		if d := time.Duration(max(in.Int64, 1)) * time.Millisecond; in.Valid && (next < 0 || d < next) {
			next = d
		}
		some = some || due > 0
	}
	return some, next, nil
}

// claimSagas tells also whether it left some that are due.
func claimSagas(ctx context.Context, x *sqlrun.Session, c store.ClaimSagas,
	hashes []string) (out []store.Saga, left bool, err error) {
	var all []dueSaga
	for _, hash := range hashes {
		rows, err := x.Rows(ctx, "DueSagas", hash, c.Limit+1)
		if err != nil {
			return nil, false, err
		}
		due, err := sqlrun.Collect(rows, scanDue)
		if err != nil {
			return nil, false, err
		}
		all = append(all, due...)
	}
	slices.SortFunc(all, func(a, b dueSaga) int {
		return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.name, b.name), cmp.Compare(a.key, b.key))
	})
	bytes := 0
	for _, d := range all {
		if bytes += d.bytes; len(out) == c.Limit || len(out) > 0 && bytes > sagarow.MaxClaim {
			return out, true, nil
		}
		if _, err := x.Exec(ctx, "ClaimSaga", d.name, d.key, c.Session, c.Lease.Milliseconds()); err != nil {
			return nil, false, err
		}
		one, err := scanSaga(x.Row(ctx, "FindSaga", d.name, d.key).Scan)
		if err != nil {
			return nil, false, err
		}
		one.Lapsed = d.session
		out = append(out, one)
	}
	return out, false, nil
}

// NoteSagaDefinitions stores definitions, in one transaction.
func (s *Store) NoteSagaDefinitions(ctx context.Context, ds []store.SagaDefinition) error {
	for i := range ds {
		if err := sagarow.CheckDefinition(&ds[i]); err != nil {
			return err
		}
	}
	return sqlrun.Failed("note definitions of sagas", s.run.Alone(ctx, func(ctx context.Context,
		x *sqlrun.Session) error {
		for _, d := range ds {
			if _, err := x.Exec(ctx, "NoteSagaDefinition", d.Name, d.Hash, d.Written); err != nil {
				return err
			}
		}
		return nil
	}))
}

// listSagas lists sagas, and where it ended.
func (s *Store) listSagas(ctx context.Context, q store.SagaQuery,
	limit int) ([]store.Saga, *store.SagaRef, error) {
	statuses, after := "", store.SagaRef{}
	if len(q.Status) > 0 {
		text, err := json.Marshal(q.Status)
		if err != nil {
			return nil, nil, sqlrun.Failed("list sagas", err)
		}
		statuses = string(text)
	}
	if q.After != nil {
		after = *q.After
	}
	if sagarow.OnlyKey(&q) {
		name, args := "ListSagasOfKey", []any{q.Key, limit}
		if q.Name != "" {
			name, args = "FindSaga", []any{q.Name, q.Key}
		}
		rows, err := s.run.Query(ctx, name, args...)
		if err != nil {
			return nil, nil, sqlrun.Failed("list sagas", err)
		}
		out, err := sqlrun.Collect(rows, func(scan func(...any) error) (store.Saga, error) {
			one, err := scanSaga(scan)
			one.Read = time.Now().UTC()
			return one, err
		})
		return out, nil, sqlrun.Failed("list sagas", err)
	}
	rows, err := s.run.Query(ctx, "ListSagas", q.Light, q.Name, q.Key, q.ID, statuses, sagarow.Live(&q),
		q.Stuck,
		q.Paused, q.Failing,
		q.Step, q.Error, column.Millis(q.StartedBefore), column.Millis(q.StartedAfter), after.Name,
		after.Key, limit,
		cmp.Or(sagarow.Within(&q, limit), -1))
	if err != nil {
		return nil, nil, sqlrun.Failed("list sagas", err)
	}
	out := sagarow.Listing{Scan: q.Scan, Limit: limit}
	_, err = sqlrun.Collect(rows, func(scan func(...any) error) (none struct{}, err error) {
		n, meant := 0, false
		one, err := scanSaga(scan, &n, &meant)
		one.Read = time.Now().UTC()
		out.Add(&one, n, meant)
		return none, err
	})
	return out.List, out.To, sqlrun.Failed("list sagas", err)
}

// listDefinitions lists definitions of sagas.
func (s *Store) listDefinitions(ctx context.Context) ([]store.SagaDefinition, error) {
	rows, err := s.run.Query(ctx, "ListSagaDefinitions")
	if err != nil {
		return nil, sqlrun.Failed("list definitions of sagas", err)
	}
	out, err := sqlrun.Collect(rows, func(scan func(...any) error) (d store.SagaDefinition, err error) {
		var at sql.NullInt64
		err = scan(&d.Name, &d.Hash, &d.Written, &at)
		d.Noted = column.OfMillis(at)
		return d, err
	})
	return out, sqlrun.Failed("list definitions of sagas", err)
}

// countSagas counts sagas that have not ended.
func (s *Store) countSagas(ctx context.Context, b *store.Backlog) error {
	rows, err := s.run.Query(ctx, "CountSagas", sagarow.Overdue.Milliseconds())
	if err != nil {
		return sqlrun.Failed("count sagas", err)
	}
	b.Sagas, err = sqlrun.Collect(rows, func(scan func(...any) error) (n store.SagaCounts, err error) {
		var oldest int64
		err = scan(&n.Name, &n.Running, &n.Compensating, &n.Stuck, &n.Paused, &n.Failing, &n.Overdue, &oldest)
		n.Oldest = time.Duration(max(oldest, 0)) * time.Millisecond
		return n, err
	})
	if err == nil {
		b.Tracked, err = s.countTracked(ctx)
	}
	return sqlrun.Failed("count sagas", err)
}
