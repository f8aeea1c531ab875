-- name: Session
-- A paused instance must not hold its mark for ever; a commit that is not flushed must not be acknowledged; skald.lent ends with the
-- transaction: see GuardLent.
SELECT set_config('skald.lent', 'yes', true), set_config('lock_timeout', $1::text, true),
	set_config('idle_in_transaction_session_timeout', $2::text, true),
	set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true);

-- name: GuardLent
-- Fails (22012, which no role needs a right for) unless the transaction is the one that was lent: a handler may have ended it by a statement
-- and begun another, which has the same state and none of our marks.
SELECT 1 / (coalesce(current_setting('skald.lent', true), '') = 'yes')::integer;

-- name: HoldLent
-- Makes each COMMIT fail (22P02) that comes before FreeLent. PostgreSQL runs the query of this cursor at COMMIT, also at COMMIT AND CHAIN.
-- current_setting keeps the planner from running it earlier.
DECLARE skald_lent NO SCROLL CURSOR WITH HOLD FOR SELECT ('COMMIT refused: Skald lent the transaction to a function and ends it itself. The function returns nil to commit, an error to roll back'
	|| left(current_setting('skald.lent', true), 0))::integer;

-- name: FreeLent
CLOSE skald_lent;

-- name: OwnSession
-- Session for a transaction of Skald's own, in which nobody else's statement runs: how the server writes and reads text is Skald's
-- to say there, whatever the database or role has set. To compile a short statement takes longer than to run it, and its tables are walked by key.
SELECT set_config('lock_timeout', $1::text, true),
	set_config('idle_in_transaction_session_timeout', $2::text, true),
	set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true),
	set_config('DateStyle', 'ISO', true), set_config('bytea_output', 'hex', true), set_config('extra_float_digits', '1', true),
	set_config('array_nulls', 'on', true), set_config('TimeZone', 'UTC', true), set_config('jit', 'off', true),
	set_config('enable_indexscan', 'on', true), set_config('enable_nestloop', 'on', true);

-- name: Walk
-- Statistics that say "empty" make the planner scan and sort what should be walked by its key; a plan that was
-- made so is kept. A relay bounds its calls itself.
SELECT /*here*/concat(
	set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true),
	set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true), set_config('statement_timeout', '0', true),
	set_config('plan_cache_mode', 'force_generic_plan', true), set_config('max_parallel_workers_per_gather', '0', true), set_config('jit', 'off', true));

-- name: Settings
-- The caller's own, for what follows in the transaction.
SELECT set_config(s.name, s.value, true) FROM unnest($1::text[], $2::text[]) AS s(name, value);

-- name: PlanOnce
-- A plan for these arguments alone: most of the conditions say nothing, and the others choose the index.
SELECT set_config('plan_cache_mode', 'force_custom_plan', true), set_config('jit', 'off', true);
