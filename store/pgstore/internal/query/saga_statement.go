package query

import (
	"fmt"
	"strings"
)

// sagaColumns are the columns of scanSaga. Times are in microseconds, because the text form of a time depends
// on the settings of the session.
const sagaColumns = `s.name, s.key, s.id, s.hash, s.input, s.fingerprint, s.origin, s.state, s.version, s.status, s.stuck, s.paused,
	s.step, s.error, s.failed, (extract(epoch FROM s.since) * 1000000)::bigint AS since, (extract(epoch FROM s.retry) * 1000000)::bigint AS retry,
	s.session, (extract(epoch FROM s.due) * 1000000)::bigint AS due, (extract(epoch FROM s.started_at) * 1000000)::bigint AS started_at,
	(extract(epoch FROM s.changed_at) * 1000000)::bigint AS changed_at, (extract(epoch FROM s.ended_at) * 1000000)::bigint AS ended_at,
	(extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS read_at`

// sagaSession has the effect of the statement Session. It is a condition that PostgreSQL evaluates once.
const sagaSession = `SELECT set_config('skald.lent', 'yes', true) IS NOT NULL AND set_config('lock_timeout', $4::text, true) IS NOT NULL
		AND set_config('idle_in_transaction_session_timeout', $5::text, true) IS NOT NULL
		AND set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true) IS NOT NULL`

// sagaMove sets the columns of a move, except the version. A column with an index keeps its value if
// possible, because PostgreSQL then writes no new index entries.
const sagaMove = `hash = CASE m.hash WHEN '' THEN s.hash ELSE m.hash END, state = m.state, status = m.status, stuck = m.stuck, paused = m.paused,
	step = m.step, error = m.error, failed = m.failed, since = m.since, retry = m.retry, changed_at = clock_timestamp(),
	session = CASE WHEN m.release OR m.final THEN '' ELSE s.session END,
	due = CASE WHEN m.final THEN NULL WHEN NOT m.release AND m.lease > 0 THEN clock_timestamp() + m.lease * interval '1 microsecond'
		WHEN NOT m.release THEN s.due WHEN m.wake >= 0 THEN clock_timestamp() + m.wake * interval '1 microsecond' END,
	ended_at = CASE WHEN m.final THEN clock_timestamp() END`

// moveColumns are the arguments of a move and their types.
const moveColumns = `name text, key text, version bigint, hash text, state text, status text, stuck boolean, paused boolean, step text,
	error text, failed integer, since timestamptz, retry timestamptz, release boolean, wake bigint, final boolean,
	lease bigint`

// sagaComplete completes the statements of sagas with the parts above.
func sagaComplete(raw map[string]string) {
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
	for _, name := range []string{"FindSaga", "LockSaga", "LockSagas", "TakeSaga", "FollowSaga", "MoveSaga", "MoveHeld",
		"MoveSagas", "MoveAllSagas", "ClaimSagas", "ListSagas", "ListSagasOfKey"} {
		raw[name] = fill.Replace(raw[name])
	}
}
