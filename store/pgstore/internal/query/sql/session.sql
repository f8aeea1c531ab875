-- name: Narrow
-- Does as Walk in a transaction that a handler will use. It stores the planner settings, so that Widen can reset them. It also empties
-- skald.kept, to which FindKeyOrders adds messages that must not get a mark.
SELECT set_config('skald.seqscan', current_setting('enable_seqscan'), true), set_config('skald.bitmapscan', current_setting('enable_bitmapscan'), true),
	set_config('skald.sort', current_setting('enable_sort'), true), set_config('skald.plan', current_setting('plan_cache_mode'), true),
	set_config('skald.jit', current_setting('jit'), true), set_config('skald.nulls', current_setting('array_nulls'), true),
	set_config('skald.kept', '', true), set_config('array_nulls', 'on', true),
	set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true),
	set_config('plan_cache_mode', 'force_generic_plan', true), set_config('jit', 'off', true);

-- name: TakeNarrow
-- Does as Session and Narrow together.
SELECT set_config('skald.lent', 'yes', true), set_config('lock_timeout', $1::text, true), set_config('idle_in_transaction_session_timeout', $2::text, true),
	set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true),
	set_config('skald.seqscan', current_setting('enable_seqscan'), true), set_config('skald.bitmapscan', current_setting('enable_bitmapscan'), true),
	set_config('skald.sort', current_setting('enable_sort'), true), set_config('skald.plan', current_setting('plan_cache_mode'), true),
	set_config('skald.jit', current_setting('jit'), true), set_config('skald.nulls', current_setting('array_nulls'), true),
	set_config('skald.kept', '', true), set_config('array_nulls', 'on', true),
	set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true),
	set_config('plan_cache_mode', 'force_generic_plan', true), set_config('jit', 'off', true);

-- name: Widen
SELECT set_config('enable_seqscan', current_setting('skald.seqscan'), true), set_config('enable_bitmapscan', current_setting('skald.bitmapscan'), true),
	set_config('enable_sort', current_setting('skald.sort'), true), set_config('plan_cache_mode', current_setting('skald.plan'), true),
	set_config('jit', current_setting('skald.jit'), true), set_config('array_nulls', current_setting('skald.nulls'), true);
