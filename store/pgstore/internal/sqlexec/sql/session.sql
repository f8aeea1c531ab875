-- name: Session
-- The timeouts end the transaction of a paused process, so that it does not keep its mark forever. synchronous_commit must not be off,
-- because the consumer acknowledges after the commit. skald.lent marks the transaction as Skald's: see GuardLent.
SELECT set_config('skald.lent', 'yes', true), set_config('lock_timeout', $1::text, true),
	set_config('idle_in_transaction_session_timeout', $2::text, true),
	set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true);

-- name: GuardLent
-- Fails with 22012 if a handler ended the transaction that Skald began, and began another one without Skald's marks. A division by zero needs
-- no right to a function.
SELECT 1 / (coalesce(current_setting('skald.lent', true), '') = 'yes')::integer;

-- name: GuardLentState
-- Does as GuardLent, and also returns whether the session may have state that remains after the transaction. The temporary schema remains after
-- its last object is dropped, so LeftBehind then checks for objects in it.
SELECT 1 / (coalesce(current_setting('skald.lent', true), '') = 'yes')::integer,
	pg_my_temp_schema() <> 0 OR EXISTS (SELECT FROM pg_listening_channels())
	OR EXISTS (SELECT FROM pg_cursor() WHERE is_holdable AND name <> 'skald_lent');

-- name: LeftBehind
-- Reports whether the session has temporary tables, views, sequences, types or functions, channels of LISTEN, or cursors WITH HOLD.
SELECT EXISTS (SELECT FROM pg_class WHERE relnamespace = pg_my_temp_schema())
	OR EXISTS (SELECT FROM pg_type WHERE typnamespace = pg_my_temp_schema())
	OR EXISTS (SELECT FROM pg_proc WHERE pronamespace = pg_my_temp_schema())
	OR EXISTS (SELECT FROM pg_listening_channels())
	OR EXISTS (SELECT FROM pg_cursor() WHERE is_holdable);

-- name: GuardTemporary
-- Fails with 22012 if the session has temporary tables, views, sequences, types or functions, also if a database function created them.
SELECT 1 / (CASE pg_my_temp_schema() WHEN 0 THEN 1
	ELSE (NOT EXISTS (SELECT FROM pg_class WHERE relnamespace = pg_my_temp_schema())
		AND NOT EXISTS (SELECT FROM pg_type WHERE typnamespace = pg_my_temp_schema())
		AND NOT EXISTS (SELECT FROM pg_proc WHERE pronamespace = pg_my_temp_schema()))::integer END);

-- name: HoldLent
-- Makes each COMMIT before FreeLent fail with 22P02. PostgreSQL runs the query of a cursor WITH HOLD at COMMIT, and this query always fails.
-- current_setting prevents the planner from running the cast earlier.
DECLARE skald_lent NO SCROLL CURSOR WITH HOLD FOR SELECT ('COMMIT refused: Skald lent the transaction to a function and ends it itself. The function returns nil to commit, an error to roll back'
	|| left(current_setting('skald.lent', true), 0))::integer;

-- name: FreeLent
CLOSE skald_lent;

-- name: OwnSession
-- Sets up a transaction with only Skald's own statements, so it may override the text formats of the database or role. jit is off, because JIT
-- takes longer than a short statement. Index scans and nested loops are on, because the statements read the tables by their keys.
SELECT set_config('lock_timeout', $1::text, true),
	set_config('idle_in_transaction_session_timeout', $2::text, true),
	set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true),
	set_config('DateStyle', 'ISO', true), set_config('bytea_output', 'hex', true), set_config('extra_float_digits', '1', true),
	set_config('array_nulls', 'on', true), set_config('TimeZone', 'UTC', true), set_config('jit', 'off', true),
	set_config('enable_indexscan', 'on', true), set_config('enable_nestloop', 'on', true);

-- name: Walk
-- Makes the planner read the outbox by its keys. Without these settings, statistics of an empty table lead to plans that scan and sort, and the
-- planner keeps them after the table has grown. statement_timeout is off, because a relay limits its calls itself.
SELECT /*here*/concat(
	set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true),
	set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true), set_config('statement_timeout', '0', true),
	set_config('plan_cache_mode', 'force_generic_plan', true), set_config('max_parallel_workers_per_gather', '0', true), set_config('jit', 'off', true));

-- name: Settings
-- Sets the settings of a handler for the rest of the transaction.
SELECT set_config(s.name, s.value, true) FROM unnest($1::text[], $2::text[]) AS s(name, value);

-- name: PlanOnce
-- Makes the planner plan for the present arguments. The lists have optional conditions; only the arguments show which index fits.
SELECT set_config('plan_cache_mode', 'force_custom_plan', true), set_config('jit', 'off', true);
