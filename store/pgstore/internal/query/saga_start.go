package query

import (
	"fmt"
	"time"

	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// Start writes new sagas with one statement, and reads existing sagas. The element of fresh is true for a new
// saga.
func (c *Sagas) Start(ss []store.Saga, ask asking, send sending) (stored []store.Saga, fresh []bool,
	err error) {
	if c.pg.Err != nil || len(ss) == 0 {
		return nil, nil, c.pg.Err
	}
	if err := sagarow.CheckStarts(ss); err != nil {
		return nil, nil, err
	}
	if len(ss) > 1 {
		return c.startMany(ss, ask, send)
	}
	one, is, err := c.startOne(&ss[0], ask)
	if err != nil {
		return nil, nil, err
	}
	return []store.Saga{one}, []bool{is}, nil
}

func (c *Sagas) startMany(ss []store.Saga, ask asking, send sending) (stored []store.Saga, fresh []bool,
	err error) {
	stored, fresh = make([]store.Saga, len(ss)), make([]bool, len(ss))
	first := make(map[[2]string]int, len(ss)) // the first index in ss of each saga
	for i := range ss {
		stored[i] = asStored(&ss[i])
		at := [2]string{ss[i].Name, ss[i].Key}
		if _, twice := first[at]; !twice {
			first[at] = i
		}
	}
	insert := c.pg.Call("StartSagas", startColumns(ss)...)
	insert.Scan = func(row sqlexec.Scanner) error {
		var at [2]string
		var started, due *int64
		if err := row.Scan(&at[0], &at[1], &started, &due); err != nil {
			return err
		}
		s := &stored[first[at]]
		fresh[first[at]] = true
		s.Started, s.Due = sqlexec.AtMicros(started), sqlexec.AtMicros(due)
		s.Changed = s.Started
		return nil
	}
	if err = send([]sqlexec.Call{insert}); err == nil {
		err = c.findStarted(ss, stored, fresh, ask, send)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("start sagas: %w", c.pg.Explain(err))
	}
	for i := range ss {
		if fresh[i] && ss[i].Session == "" {
			c.waker.Wake()
			break
		}
	}
	return stored, fresh, nil
}

// findStarted reads the existing sagas into stored. If retention deleted a saga meanwhile, findStarted starts
// it again.
func (c *Sagas) findStarted(ss, stored []store.Saga, fresh []bool, ask asking, send sending) error {
	var calls []sqlexec.Call
	found := make([]bool, len(ss))
	for i := range ss {
		if found[i] = fresh[i]; fresh[i] {
			continue
		}
		find := c.pg.Call("FindSaga", ss[i].Name, ss[i].Key)
		find.Scan = func(row sqlexec.Scanner) (err error) {
			stored[i], err = scanSaga(row)
			stored[i].Read, found[i] = time.Time{}, true
			return err
		}
		calls = append(calls, find)
	}
	if len(calls) == 0 {
		return nil
	}
	if err := send(calls); err != nil {
		return err
	}
	for i := range ss {
		if found[i] {
			continue
		}
		var err error
		if stored[i], fresh[i], err = c.startOne(&ss[i], ask); err != nil {
			return err
		}
	}
	return nil
}

// startColumns returns the columns of new sagas as arrays.
func startColumns(ss []store.Saga) []any {
	n := len(ss)
	texts := make([][]string, 11) // name, key, id, hash, input, origin, state, status, step, error, session
	for i := range texts {
		texts[i] = make([]string, n)
	}
	prints, leases, versions := make([]int64, n), make([]int64, n), make([]int64, n)
	stuck, paused, failed := make([]bool, n), make([]bool, n), make([]int32, n)
	since, retry := make([]*time.Time, n), make([]*time.Time, n)
	for i := range ss {
		s, at := &ss[i], sagarow.StoredStatus(ss[i].SagaStatus)
		for column, text := range []string{s.Name, s.Key, s.ID, s.Hash, s.Input, s.Origin, s.State, at.Status,
			at.Step, at.Error, s.Session} {
			texts[column][i] = text
		}
		prints[i], leases[i], versions[i] = s.Fingerprint, s.Lease.Microseconds(), sagarow.First(s)
		stuck[i], paused[i], failed[i] = at.Stuck, at.Paused, int32(at.Failed)
		since[i], retry[i] = sqlexec.Moment(at.Since), sqlexec.Moment(at.Retry)
	}
	out := make([]any, 0, 19)
	for _, column := range texts {
		out = append(out, column)
	}
	return append(out, prints, leases, versions, stuck, paused, failed, since, retry)
}
