-- name: ExamineSettings
-- Returns the values at the start of the session, because Skald changes some of them in its transactions.
SELECT name, coalesce(reset_val, '') FROM pg_catalog.pg_settings WHERE name = ANY ($1::text[]);

-- name: ExaminePlanner
-- Returns planner switches that are off and JIT costs below the default, as a new session of this role has them.
SELECT name, reset_val FROM pg_catalog.pg_settings
WHERE name LIKE 'enable\_%' AND vartype = 'bool' AND boot_val = 'on' AND reset_val = 'off'
	OR name LIKE 'jit\_%\_cost' AND reset_val::double precision >= 0 AND reset_val::double precision < boot_val::double precision
ORDER BY name;

-- name: ExamineServer
-- Without pg_read_all_stats, it does not see the start of other users' transactions.
SELECT current_setting('server_version_num')::int, pg_is_in_recovery(), (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
	(SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE backend_type = 'client backend')::int,
	(SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE backend_type = 'client backend' AND usename = current_user)::int,
	coalesce((SELECT rolconnlimit FROM pg_catalog.pg_roles WHERE rolname = current_user), -1),
	coalesce((SELECT datconnlimit FROM pg_catalog.pg_database WHERE datname = current_database()), -1),
	coalesce((SELECT extract(epoch FROM max(clock_timestamp() - xact_start))::bigint FROM pg_catalog.pg_stat_activity
		WHERE backend_type = 'client backend' AND datname = current_database()), 0);

-- name: ExamineOwner
SELECT r.rolname, r.rolsuper FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_roles AS r ON r.oid = c.relowner
WHERE c.oid = '/*schema*/skald_outbox'::regclass;

-- name: ExamineRetention
SELECT coalesce((SELECT round(ran_seconds)::bigint FROM /*schema*/skald_retention WHERE name = 'skald_outbox'), -1);

-- name: ExamineSize
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_catalog.pg_class AS c
WHERE c.relnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = $1::text) AND c.relkind = 'r' AND c.relname LIKE 'skald\_%';
