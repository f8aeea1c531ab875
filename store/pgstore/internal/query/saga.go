// The files saga*.go have the tables of sagas: orchestrated sagas, which an engine runs, and choreographed
// sagas, which a tracker follows.

package query

import (
	"cmp"
	"fmt"
	"time"

	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// Sagas has the sagas of one database.
type Sagas struct {
	pg    *sqlexec.DB
	waker *sqlexec.Waker // wakes engines for claimable sagas
}

// NewSaga returns the sagas of pg.
func NewSaga(pg *sqlexec.DB, w *sqlexec.Waker) *Sagas { return &Sagas{pg, w} }

func bySaga(a, b store.SagaRef) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key))
}

// scanSaga reads sagaColumns into s, and the columns after them into others.
func scanSaga(row sqlexec.Scanner, others ...any) (s store.Saga, err error) {
	var since, retry, due, started, changed, ended, read *int64
	err = row.Scan(append([]any{&s.Name, &s.Key, &s.ID, &s.Hash, &s.Input, &s.Fingerprint, &s.Origin,
		&s.State, &s.Version, &s.Status, &s.Stuck, &s.Paused,
		&s.Step, &s.Error, &s.Failed, &since, &retry, &s.Session, &due, &started, &changed, &ended, &read},
		others...)...)
	s.Since, s.Retry, s.Due, s.Started, s.Changed, s.Ended = sqlexec.AtMicros(since), sqlexec.AtMicros(retry),
		sqlexec.AtMicros(due), sqlexec.AtMicros(started), sqlexec.AtMicros(changed), sqlexec.AtMicros(ended)
	s.Read = sqlexec.AtMicros(read)
	return s, err
}

// asking runs a statement in a transaction of the caller and returns the first row.
type asking func(sqlexec.Call) sqlexec.Scanner

// sending runs statements in a transaction of the caller.
type sending func([]sqlexec.Call) error

// startTries is the number of tries to start a saga. More than one can be needed: another transaction writes
// the saga first, and retention deletes that saga before startOne reads it.
const startTries = 3

// startOne writes a new saga, or reads the stored saga with the same name and key.
func (c *Sagas) startOne(s *store.Saga, ask asking) (stored store.Saga, fresh bool, err error) {
	for range startTries {
		stored = asStored(s)
		at := &stored.SagaStatus
		var started, due *int64
		how, args := "StartSaga", []any{s.Name, s.Key, s.ID, s.Hash, s.Input, s.Fingerprint, s.Origin,
			s.State, at.Status, at.Stuck, at.Paused, at.Step,
			at.Error, int32(at.Failed), sqlexec.Moment(at.Since), sqlexec.Moment(at.Retry), s.Session,
			s.Lease.Microseconds(), stored.Version}
		if s.Instead != "" {
			how, args = "StartSagaInstead", append(args, s.Instead)
		}
		err = ask(c.pg.Call(how, args...)).Scan(&started, &due)
		if err == nil {
			stored.Started, stored.Changed, stored.Due = sqlexec.AtMicros(started), sqlexec.AtMicros(started),
				sqlexec.AtMicros(due)
			if s.Session == "" {
				c.waker.Wake()
			}
			return stored, true, nil
		}
		if sqlexec.NoRow(err) {
			stored, err = scanSaga(ask(c.pg.Call("FindSaga", s.Name, s.Key)))
			stored.Read = time.Time{}
		}
		if !sqlexec.NoRow(err) {
			break
		}
	}
	if err != nil {
		return store.Saga{}, false, fmt.Errorf("start a saga: %w", c.pg.Explain(err))
	}
	return stored, false, nil
}

// asStored returns the new saga s with the values that the store has, but without the times that the
// database sets.
func asStored(s *store.Saga) store.Saga {
	out := *s
	out.SagaStatus, out.Version = sagarow.StoredStatus(s.SagaStatus), sagarow.First(s)
	out.Lease, out.Instead, out.Ended = 0, "", time.Time{}
	return out
}

// Lock reads and locks sagas with one statement. A saga without a row has no Name in the result.
func (c *Sagas) Lock(refs []store.SagaRef, ask asking, send sending) ([]store.Saga, error) {
	if len(refs) == 1 {
		one, err := c.lockOne(refs[0], ask)
		return []store.Saga{one}, err
	}
	out := make([]store.Saga, len(refs))
	var names, keys []string
	var place []int // index of each in refs
	for i, r := range refs {
		if sagarow.Named(r.Name, r.Key) {
			names, keys, place = append(names, r.Name), append(keys, r.Key), append(place, i)
		}
	}
	if c.pg.Err != nil || len(names) == 0 {
		return out, c.pg.Err
	}
	lock := c.pg.Call("LockSagas", names, keys)
	lock.Scan = func(row sqlexec.Scanner) error {
		var n int64
		s, err := scanSaga(row, &n)
		if err == nil {
			out[place[n-1]] = s
		}
		return err
	}
	if err := send([]sqlexec.Call{lock}); err != nil {
		return nil, fmt.Errorf("lock %d sagas: %w", len(names), c.pg.Explain(err))
	}
	return out, nil
}

// lockOne does as Lock for one saga, with a cheaper statement.
func (c *Sagas) lockOne(r store.SagaRef, ask asking) (store.Saga, error) {
	if c.pg.Err != nil || !sagarow.Named(r.Name, r.Key) {
		return store.Saga{}, c.pg.Err
	}
	s, err := scanSaga(ask(c.pg.Call("LockSaga", r.Name, r.Key)))
	switch {
	case sqlexec.NoRow(err):
		return store.Saga{}, nil
	case err != nil:
		return store.Saga{}, fmt.Errorf("lock a saga: %w", c.pg.Explain(err))
	}
	return s, nil
}

// Hold returns the calls that lock sagas. A call sets its element of matches to true if the saga has the
// given version.
func (c *Sagas) Hold(refs []store.SagaRef, matches []bool) []sqlexec.Call {
	var calls []sqlexec.Call
	for _, i := range sqlexec.Order(refs, bySaga) {
		if r := refs[i]; sagarow.Named(r.Name, r.Key) {
			hold := c.pg.Call("HoldSaga", r.Name, r.Key, r.Version).Into(&matches[i])
			hold.With = c.pg.SQL["TakeSaga"]
			calls = append(calls, hold)
		}
	}
	return calls
}

// LockedSagas returns the sagas that an intake has locked.
func LockedSagas(in store.Intake, found store.Found) (out []store.SagaRef) {
	for i, r := range in.Sagas {
		if found.Sagas[i] {
			out = append(out, r)
		}
	}
	return out
}
