package pgstore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/column"
	"github.com/skald-go/skald/store/pgstore/internal/pgrun"
)

// sagaColumns are those that scanSaga reads. A time is a number of microseconds: its text is for the caller's
// session to say.
const sagaColumns = `s.name, s.key, s.id, s.hash, s.input, s.fingerprint, s.origin, s.state, s.version, s.status, s.stuck, s.paused,
	s.step, s.error, s.failed, (extract(epoch FROM s.since) * 1000000)::bigint AS since, (extract(epoch FROM s.retry) * 1000000)::bigint AS retry,
	s.session, (extract(epoch FROM s.due) * 1000000)::bigint AS due, (extract(epoch FROM s.started_at) * 1000000)::bigint AS started_at,
	(extract(epoch FROM s.changed_at) * 1000000)::bigint AS changed_at, (extract(epoch FROM s.ended_at) * 1000000)::bigint AS ended_at,
	(extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS read_at`

// sagaSession is what Session does, as a condition that is looked at once.
const sagaSession = `SELECT set_config('skald.lent', 'yes', true) IS NOT NULL AND set_config('lock_timeout', $4::text, true) IS NOT NULL
		AND set_config('idle_in_transaction_session_timeout', $5::text, true) IS NOT NULL
		AND set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true) IS NOT NULL`

// sagaMove is what a move sets beside the version. What stays as it is, in value, costs no entry of an index.
const sagaMove = `hash = CASE m.hash WHEN '' THEN s.hash ELSE m.hash END, state = m.state, status = m.status, stuck = m.stuck, paused = m.paused,
	step = m.step, error = m.error, failed = m.failed, since = m.since, retry = m.retry, changed_at = clock_timestamp(),
	session = CASE WHEN m.release OR m.final THEN '' ELSE s.session END,
	due = CASE WHEN m.final THEN NULL WHEN NOT m.release AND m.lease > 0 THEN clock_timestamp() + m.lease * interval '1 microsecond'
		WHEN NOT m.release THEN s.due WHEN m.wake >= 0 THEN clock_timestamp() + m.wake * interval '1 microsecond' END,
	ended_at = CASE WHEN m.final THEN clock_timestamp() END`

// moveColumns are the arguments of a move, and their types.
const moveColumns = `name text, key text, version bigint, hash text, state text, status text, stuck boolean, paused boolean, step text,
	error text, failed integer, since timestamptz, retry timestamptz, release boolean, wake bigint, final boolean,
	lease bigint`

// sagas completes the statements about sagas.
func sagas(raw map[string]string) {
	var one, arrays, names []string
	for i, column := range strings.Split(moveColumns, ",") {
		name, typ, _ := strings.Cut(strings.TrimSpace(column), " ")
		one = append(one, "m."+name, fmt.Sprintf("$%d::%s", i+1, typ))
		arrays = append(arrays, fmt.Sprintf("$%d::%s[]", i+1, typ))
		names = append(names, name)
	}
	moved := fmt.Sprintf("unnest(%s) WITH ORDINALITY AS m(%s, n)", strings.Join(arrays, ", "),
		strings.Join(names, ", "))
	fill := strings.NewReplacer("/*saga*/", sagaColumns, "/*session*/", sagaSession, "/*move*/",
		strings.NewReplacer(one...).Replace(sagaMove),
		"/*moves*/", sagaMove, "/*moved*/", moved)
	for _, name := range []string{"FindSaga", "LockSaga", "TakeSaga", "FollowSaga", "MoveSaga", "MoveHeld",
		"MoveSagas", "MoveAllSagas", "ClaimSagas", "ListSagas", "ListSagasOfKey"} {
		raw[name] = fill.Replace(raw[name])
	}
}

func bySaga(a, b store.SagaRef) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key))
}

// scanSaga reads sagaColumns, and more after them.
func scanSaga(row pgrun.Scanner, more ...any) (s store.Saga, err error) {
	var since, retry, due, started, changed, ended, read *int64
	err = row.Scan(append([]any{&s.Name, &s.Key, &s.ID, &s.Hash, &s.Input, &s.Fingerprint, &s.Origin,
		&s.State, &s.Version, &s.Status, &s.Stuck, &s.Paused,
		&s.Step, &s.Error, &s.Failed, &since, &retry, &s.Session, &due, &started, &changed, &ended, &read},
		more...)...)
	s.Since, s.Retry, s.Due, s.Started, s.Changed, s.Ended = column.AtMicros(since), column.AtMicros(retry),
		column.AtMicros(due), column.AtMicros(started), column.AtMicros(changed), column.AtMicros(ended)
	s.Read = column.AtMicros(read)
	return s, err
}

// asking has one statement answered in a transaction of the caller's.
type asking func(pgrun.Call) pgrun.Scanner

// StartSaga writes a new saga, or reads the one that is there: a round trip, two for the latter.
func (s *Store) StartSaga(ctx context.Context, tx pgx.Tx, start store.Saga) (store.Saga, bool, error) {
	return s.startSaga(&start, func(c pgrun.Call) pgrun.Scanner { return tx.QueryRow(ctx, c.SQL, c.Args...) })
}

// LockSaga reads a saga and locks it: a round trip.
func (s *Store) LockSaga(ctx context.Context, tx pgx.Tx, name, key string) (store.Saga, bool, error) {
	return s.lockSaga(name, key,
		func(c pgrun.Call) pgrun.Scanner { return tx.QueryRow(ctx, c.SQL, c.Args...) })
}

// StartSaga writes a new saga, or reads the one that is there: a round trip, two for the latter.
func (s *SQLStore) StartSaga(ctx context.Context, tx *sql.Tx, start store.Saga) (store.Saga, bool, error) {
	return s.startSaga(&start,
		func(c pgrun.Call) pgrun.Scanner { return tx.QueryRowContext(ctx, c.SQL, c.Args...) })
}

// LockSaga reads a saga and locks it: a round trip.
func (s *SQLStore) LockSaga(ctx context.Context, tx *sql.Tx, name, key string) (store.Saga, bool, error) {
	return s.lockSaga(name, key,
		func(c pgrun.Call) pgrun.Scanner { return tx.QueryRowContext(ctx, c.SQL, c.Args...) })
}

// turns is how often a start looks again for a saga that another transaction wrote, and that the retention
// has deleted meanwhile.
const turns = 3

func (c *core) startSaga(s *store.Saga, ask asking) (stored store.Saga, fresh bool, err error) {
	if c.pg.Err != nil {
		return stored, false, c.pg.Err
	}
	if err := sagarow.Check(s); err != nil {
		return stored, false, err
	}
	for range turns {
		stored = *s
		stored.Standing, stored.Version, stored.Lease, stored.Ended = sagarow.Standing(s.Standing), 1,
			0, time.Time{}
		at := &stored.Standing
		var started, due *int64
		err = ask(c.pg.Call("StartSaga", s.Name, s.Key, s.ID, s.Hash, s.Input, s.Fingerprint, s.Origin,
			s.State, at.Status, at.Stuck, at.Paused, at.Step,
			at.Error, int32(at.Failed), column.Moment(at.Since), column.Moment(at.Retry), s.Session,
			s.Lease.Microseconds())).Scan(&started, &due)
		if err == nil {
			stored.Started, stored.Changed, stored.Due = column.AtMicros(started), column.AtMicros(started),
				column.AtMicros(due)
			if s.Session == "" {
				c.waker.Wake()
			}
			return stored, true, nil
		}
		if pgrun.NoRow(err) {
			stored, err = scanSaga(ask(c.pg.Call("FindSaga", s.Name, s.Key)))
			stored.Read = time.Time{}
		}
		if !pgrun.NoRow(err) {
			break
		}
	}
	if err != nil {
		return store.Saga{}, false, fmt.Errorf("start a saga: %w", c.pg.Explain(err))
	}
	return stored, false, nil
}

func (c *core) lockSaga(name, key string, ask asking) (store.Saga, bool, error) {
	if c.pg.Err != nil || !sagarow.Named(name, key) {
		return store.Saga{}, false, c.pg.Err
	}
	s, err := scanSaga(ask(c.pg.Call("LockSaga", name, key)))
	switch {
	case pgrun.NoRow(err):
		return store.Saga{}, false, nil
	case err != nil:
		return store.Saga{}, false, fmt.Errorf("lock a saga: %w", c.pg.Explain(err))
	}
	return s, true, nil
}

// holdSagas are the calls that lock sagas which stand as they are named.
func (c *core) holdSagas(refs []store.SagaRef, found []bool) []pgrun.Call {
	var calls []pgrun.Call
	for _, i := range order(refs, bySaga) {
		if r := refs[i]; sagarow.Named(r.Name, r.Key) {
			hold := c.pg.Call("HoldSaga", r.Name, r.Key, r.Version).Into(&found[i])
			hold.With = c.pg.SQL["TakeSaga"]
			calls = append(calls, hold)
		}
	}
	return calls
}

func moveArgs(m *store.SagaMove) []any {
	at := sagarow.Standing(m.Standing)
	return []any{m.Name, m.Key, m.Version, m.Hash, m.State, at.Status, at.Stuck, at.Paused, at.Step, at.Error,
		int32(at.Failed),
		column.Moment(at.Since), column.Moment(at.Retry), m.Release, wakeIn(m), m.Final,
		m.Lease.Microseconds()}
}

// wakeIn is when a saga is due again, in microseconds; below 0: never.
func wakeIn(m *store.SagaMove) int64 {
	if m.Wake < 0 {
		return -1
	}
	return m.Wake.Microseconds()
}

// moveSaga is the guard of an effect, and what becomes of its saga.
func (c *core) moveSaga(m *store.SagaMove) ([]pgrun.Call, error) {
	if m == nil {
		return nil, nil
	}
	if err := sagarow.CheckMove(m); err != nil {
		return nil, err
	}
	return []pgrun.Call{c.pg.Call("MoveSaga", moveArgs(m)...)}, nil
}

// moveHeld turns the move of a saga that the unit has locked into one that needs no guard before it; false:
// the calls are others.
func (u *unit) moveHeld(calls []pgrun.Call) bool {
	if len(calls) == 0 || calls[0].SQL != u.s.pg.SQL["MoveSaga"] {
		return false
	}
	move := &calls[0]
	held := slices.IndexFunc(u.sagas, func(r store.SagaRef) bool {
		return move.Args[0] == r.Name && move.Args[1] == r.Key && move.Args[2] == r.Version
	})
	if held < 0 {
		return false
	}
	move.SQL = u.s.pg.SQL["MoveHeld"]
	move.Fail = func(err error) error {
		switch pgrun.SQLState(err) {
		case "22012":
			return store.ErrLent
		case "22P02":
			return fmt.Errorf("%w: %w", store.ErrLost, err)
		}
		return err
	}
	return true
}

// heldSagas are those that an intake has locked.
func heldSagas(in store.Intake, found store.Found) (out []store.SagaRef) {
	for i, r := range in.Sagas {
		if found.Sagas[i] {
			out = append(out, r)
		}
	}
	return out
}

// stirs tells whether one of the sagas that es move is for any engine then.
func stirs(es []store.Effect) bool {
	return slices.ContainsFunc(es,
		func(e store.Effect) bool { return e.Saga != nil && e.Saga.Release && e.Saga.Wake >= 0 })
}

// stood wakes whoever waits for rows or sagas of effects that stand.
func (c *core) stood(es ...store.Effect) {
	if speaks(es) || stirs(es) {
		c.waker.Wake()
	}
}
