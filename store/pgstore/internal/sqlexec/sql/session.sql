-- name: Session
-- A paused process must not hold its mark forever. A commit that is not flushed must not be acknowledged. skald.lent ends with the
-- transaction: see GuardLent.
SELECT set_config('skald.lent', 'yes', true), set_config('lock_timeout', $1::text, true),
	set_config('idle_in_transaction_session_timeout', $2::text, true),
	set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true);

-- name: GuardLent
-- Fails (22012, which needs no right) unless the transaction is the one that was lent. A handler may have ended that by a statement and
-- begun another, which has the same state and none of Skald's marks.
SELECT 1 / (coalesce(current_setting('skald.lent', true), '') = 'yes')::integer;

-- name: GuardLentState
-- GuardLent, and whether the session may have state that outlives the transaction. The temporary schema exists from the first temporary
-- object of a session to its end, so LeftBehind looks into it.
SELECT 1 / (coalesce(current_setting('skald.lent', true), '') = 'yes')::integer,
	pg_my_temp_schema() <> 0 OR EXISTS (SELECT FROM pg_listening_channels())
	OR EXISTS (SELECT FROM pg_cursor() WHERE is_holdable AND name <> 'skald_lent');

-- name: LeftBehind
-- Temporary tables, views and sequences (pg_class), types and functions, channels of LISTEN, and cursors WITH HOLD.
SELECT EXISTS (SELECT FROM pg_class WHERE relnamespace = pg_my_temp_schema())
	OR EXISTS (SELECT FROM pg_type WHERE typnamespace = pg_my_temp_schema())
	OR EXISTS (SELECT FROM pg_proc WHERE pronamespace = pg_my_temp_schema())
	OR EXISTS (SELECT FROM pg_listening_channels())
	OR EXISTS (SELECT FROM pg_cursor() WHERE is_holdable);

-- name: GuardTemporary
-- Fails (22012) if the session has temporary tables, views, sequences, types or functions. A function of the database may have made them.
SELECT 1 / (CASE pg_my_temp_schema() WHEN 0 THEN 1
	ELSE (NOT EXISTS (SELECT FROM pg_class WHERE relnamespace = pg_my_temp_schema())
		AND NOT EXISTS (SELECT FROM pg_type WHERE typnamespace = pg_my_temp_schema())
		AND NOT EXISTS (SELECT FROM pg_proc WHERE pronamespace = pg_my_temp_schema()))::integer END);

-- name: HoldLent
-- Makes each COMMIT before FreeLent fail (22P02). PostgreSQL runs the query of this cursor at COMMIT and at COMMIT AND CHAIN.
-- current_setting keeps the planner from running it earlier.
DECLARE skald_lent NO SCROLL CURSOR WITH HOLD FOR SELECT ('COMMIT refused: Skald lent the transaction to a function and ends it itself. The function returns nil to commit, an error to roll back'
	|| left(current_setting('skald.lent', true), 0))::integer;

-- name: FreeLent
CLOSE skald_lent;

-- name: OwnSession
-- Session for a transaction of Skald's own. No other statement runs in it, so Skald sets the text formats, whatever the database or role
-- has. JIT takes longer than a short statement itself, and the tables are read by their keys.
SELECT set_config('lock_timeout', $1::text, true),
	set_config('idle_in_transaction_session_timeout', $2::text, true),
	set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true),
	set_config('DateStyle', 'ISO', true), set_config('bytea_output', 'hex', true), set_config('extra_float_digits', '1', true),
	set_config('array_nulls', 'on', true), set_config('TimeZone', 'UTC', true), set_config('jit', 'off', true),
	set_config('enable_indexscan', 'on', true), set_config('enable_nestloop', 'on', true);

-- name: Walk
-- Statistics of an empty table make the planner scan and sort tables that should be read by their keys, and it keeps that plan. A relay
-- limits its calls itself.
SELECT /*here*/concat(
	set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true),
	set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true), set_config('statement_timeout', '0', true),
	set_config('plan_cache_mode', 'force_generic_plan', true), set_config('max_parallel_workers_per_gather', '0', true), set_config('jit', 'off', true));

-- name: Settings
-- The settings of the caller, for the rest of the transaction.
SELECT set_config(s.name, s.value, true) FROM unnest($1::text[], $2::text[]) AS s(name, value);

-- name: PlanOnce
-- Plans for these arguments only: most conditions are always true, and the others choose the index.
SELECT set_config('plan_cache_mode', 'force_custom_plan', true), set_config('jit', 'off', true);
