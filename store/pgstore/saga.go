package pgstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
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
func (c *core) sagas() {
	var one, arrays, names []string
	for i, column := range strings.Split(moveColumns, ",") {
		name, typ, _ := strings.Cut(strings.TrimSpace(column), " ")
		one = append(one, "m."+name, fmt.Sprintf("$%d::%s", i+1, typ))
		arrays = append(arrays, fmt.Sprintf("$%d::%s[]", i+1, typ))
		names = append(names, name)
	}
	moved := fmt.Sprintf("unnest(%s) WITH ORDINALITY AS m(%s, n)", strings.Join(arrays, ", "), strings.Join(names, ", "))
	fill := strings.NewReplacer("/*saga*/", sagaColumns, "/*session*/", sagaSession, "/*move*/", strings.NewReplacer(one...).Replace(sagaMove),
		"/*moves*/", sagaMove, "/*moved*/", moved)
	for _, name := range []string{"FindSaga", "LockSaga", "TakeSaga", "FollowSaga", "MoveSaga", "MoveHeld", "MoveSagas", "MoveAllSagas", "ClaimSagas", "ListSagas", "ListSagasOfKey"} {
		c.raw[name] = fill.Replace(c.raw[name])
	}
}

func bySaga(a, b store.SagaRef) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key))
}

// scanSaga reads sagaColumns, and more after them.
func scanSaga(row scanner, more ...any) (s store.Saga, err error) {
	var since, retry, due, started, changed, ended, read *int64
	err = row.Scan(append([]any{&s.Name, &s.Key, &s.ID, &s.Hash, &s.Input, &s.Fingerprint, &s.Origin, &s.State, &s.Version, &s.Status, &s.Stuck, &s.Paused,
		&s.Step, &s.Error, &s.Failed, &since, &retry, &s.Session, &due, &started, &changed, &ended, &read}, more...)...)
	s.Since, s.Retry, s.Due, s.Started, s.Changed, s.Ended = atMicros(since), atMicros(retry), atMicros(due), atMicros(started), atMicros(changed), atMicros(ended)
	s.Read = atMicros(read)
	return s, err
}

// atMicros is a time in microseconds, which may be NULL.
func atMicros(micros *int64) time.Time {
	if micros == nil {
		return time.Time{}
	}
	return time.UnixMicro(*micros).UTC()
}

// asking has one statement answered in a transaction of the caller's.
type asking func(call) scanner

// StartSaga writes a new saga, or reads the one that is there: a round trip, two for the latter.
func (s *Store) StartSaga(ctx context.Context, tx pgx.Tx, start store.Saga) (store.Saga, bool, error) {
	return s.startSaga(&start, func(c call) scanner { return tx.QueryRow(ctx, c.sql, c.args...) })
}

// LockSaga reads a saga and locks it: a round trip.
func (s *Store) LockSaga(ctx context.Context, tx pgx.Tx, name, key string) (store.Saga, bool, error) {
	return s.lockSaga(name, key, func(c call) scanner { return tx.QueryRow(ctx, c.sql, c.args...) })
}

// StartSaga writes a new saga, or reads the one that is there: a round trip, two for the latter.
func (s *SQLStore) StartSaga(ctx context.Context, tx *sql.Tx, start store.Saga) (store.Saga, bool, error) {
	return s.startSaga(&start, func(c call) scanner { return tx.QueryRowContext(ctx, c.sql, c.args...) })
}

// LockSaga reads a saga and locks it: a round trip.
func (s *SQLStore) LockSaga(ctx context.Context, tx *sql.Tx, name, key string) (store.Saga, bool, error) {
	return s.lockSaga(name, key, func(c call) scanner { return tx.QueryRowContext(ctx, c.sql, c.args...) })
}

func noRow(err error) bool { return errors.Is(err, pgx.ErrNoRows) || errors.Is(err, sql.ErrNoRows) }

// turns is how often a start looks again for a saga that another transaction wrote, and that the retention
// has deleted meanwhile.
const turns = 3

func (c *core) startSaga(s *store.Saga, ask asking) (stored store.Saga, fresh bool, err error) {
	if c.err != nil {
		return stored, false, c.err
	}
	if err := sagarow.Check(s); err != nil {
		return stored, false, err
	}
	for range turns {
		stored = *s
		stored.Standing, stored.Version, stored.Lease, stored.Ended = sagarow.Standing(s.Standing), 1, 0, time.Time{}
		at := &stored.Standing
		var started, due *int64
		err = ask(c.call("StartSaga", s.Name, s.Key, s.ID, s.Hash, s.Input, s.Fingerprint, s.Origin, s.State, at.Status, at.Stuck, at.Paused, at.Step,
			at.Error, int32(at.Failed), moment(at.Since), moment(at.Retry), s.Session, s.Lease.Microseconds())).Scan(&started, &due)
		if err == nil {
			stored.Started, stored.Changed, stored.Due = atMicros(started), atMicros(started), atMicros(due)
			if s.Session == "" {
				c.wake()
			}
			return stored, true, nil
		}
		if noRow(err) {
			stored, err = scanSaga(ask(c.call("FindSaga", s.Name, s.Key)))
			stored.Read = time.Time{}
		}
		if !noRow(err) {
			break
		}
	}
	if err != nil {
		return store.Saga{}, false, fmt.Errorf("start a saga: %w", c.explain(err))
	}
	return stored, false, nil
}

func (c *core) lockSaga(name, key string, ask asking) (store.Saga, bool, error) {
	if c.err != nil || !sagarow.Named(name, key) {
		return store.Saga{}, false, c.err
	}
	s, err := scanSaga(ask(c.call("LockSaga", name, key)))
	switch {
	case noRow(err):
		return store.Saga{}, false, nil
	case err != nil:
		return store.Saga{}, false, fmt.Errorf("lock a saga: %w", c.explain(err))
	}
	return s, true, nil
}

// holdSagas are the calls that lock sagas which stand as they are named.
func (c *core) holdSagas(refs []store.SagaRef, found []bool) []call {
	var calls []call
	for _, i := range order(refs, bySaga) {
		if r := refs[i]; sagarow.Named(r.Name, r.Key) {
			hold := c.call("HoldSaga", r.Name, r.Key, r.Version).into(&found[i])
			hold.with = c.sql["TakeSaga"]
			calls = append(calls, hold)
		}
	}
	return calls
}

func moveArgs(m *store.SagaMove) []any {
	at := sagarow.Standing(m.Standing)
	return []any{m.Name, m.Key, m.Version, m.Hash, m.State, at.Status, at.Stuck, at.Paused, at.Step, at.Error, int32(at.Failed),
		moment(at.Since), moment(at.Retry), m.Release, wakeIn(m), m.Final, m.Lease.Microseconds()}
}

// wakeIn is when a saga is due again, in microseconds; below 0: never.
func wakeIn(m *store.SagaMove) int64 {
	if m.Wake < 0 {
		return -1
	}
	return m.Wake.Microseconds()
}

// moveSaga is the guard of an effect, and what becomes of its saga.
func (c *core) moveSaga(m *store.SagaMove) ([]call, error) {
	if m == nil {
		return nil, nil
	}
	if err := sagarow.CheckMove(m); err != nil {
		return nil, err
	}
	return []call{c.call("MoveSaga", moveArgs(m)...)}, nil
}

// moveHeld turns the move of a saga that the unit has locked into one that needs no guard before it; false:
// the calls are others.
func (u *unit) moveHeld(calls []call) bool {
	if len(calls) == 0 || calls[0].sql != u.s.sql["MoveSaga"] {
		return false
	}
	move := &calls[0]
	held := slices.IndexFunc(u.sagas, func(r store.SagaRef) bool {
		return move.args[0] == r.Name && move.args[1] == r.Key && move.args[2] == r.Version
	})
	if held < 0 {
		return false
	}
	move.sql = u.s.sql["MoveHeld"]
	move.fail = func(err error) error {
		switch state(err) {
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
	return slices.ContainsFunc(es, func(e store.Effect) bool { return e.Saga != nil && e.Saga.Release && e.Saga.Wake >= 0 })
}

// stood wakes whoever waits for rows or sagas of effects that stand.
func (c *core) stood(es ...store.Effect) {
	if speaks(es) || stirs(es) {
		c.wake()
	}
}
