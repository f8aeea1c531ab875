-- What stands in /*…*/ comes from the column map.

-- name: Columns
-- The table, its columns, and what this user may do with it. Of a domain the type is the one that it is over.
WITH RECURSIVE base AS (
	SELECT a.attnum, a.atttypid AS type FROM pg_attribute AS a WHERE a.attrelid = to_regclass($1::text) AND a.attnum > 0 AND NOT a.attisdropped
	UNION ALL
	SELECT b.attnum, t.typbasetype FROM base AS b JOIN pg_type AS t ON t.oid = b.type WHERE t.typtype = 'd'
), kind AS (
	SELECT b.attnum, b.type FROM base AS b JOIN pg_type AS t ON t.oid = b.type WHERE t.typtype <> 'd'
)
SELECT c.oid::bigint, c.relkind::text, coalesce(a.attname::text, ''), coalesce(format_type(k.type, NULL), ''),
	coalesce(a.attidentity <> '' OR pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval(%', false),
	has_table_privilege(c.oid, 'SELECT'), has_any_column_privilege(c.oid, 'UPDATE'), has_table_privilege(c.oid, 'DELETE'),
	coalesce(a.attnotnull, false)
FROM pg_class AS c
LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN kind AS k ON k.attnum = a.attnum
LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE c.oid = to_regclass($1::text)
ORDER BY a.attnum;

-- name: Version
SELECT current_setting('server_version_num');

-- name: Answers
-- What any database can.
SELECT 1;

-- name: Peek
-- Whether there is anything to do. It locks nothing.
SELECT EXISTS (SELECT FROM /*table*/ AS t WHERE (/*pending*/) AND (/*where*/)
	AND (/*topic*/ = ANY ($1::text::text[])) IS NOT TRUE
	AND (/*key*/ = ANY ($2::text::text[])) IS NOT TRUE
	AND ((t.tableoid::text || t.ctid::text) = ANY ($3::text::text[])) IS NOT TRUE);

-- name: Bound
-- A process that is paused must not keep its locks forever.
SELECT set_config('idle_in_transaction_session_timeout', '/*idle*/', true);

-- name: Begin
-- The page waits for the broker in this transaction, for longer than transaction_timeout may allow: the server would roll the marks back
-- after each publication. Versions before 17 have no such setting.
-- A relay that has gone without a word gives its locks back after /*idle*/; a lock of others is waited for, not for ever.
-- The advisory lock is of the transaction, and of this table: whoever has it is the only relay that works.
SELECT set_config('lock_timeout', '5s', true), set_config('idle_in_transaction_session_timeout', '/*idle*/', true),
	CASE WHEN current_setting('transaction_timeout', true) <> '0' THEN set_config('transaction_timeout', '0', true) ELSE '' END,
	/*claim*/;

-- name: Page
-- A page is the first rows that are not done, of one snapshot: where an earlier row of a key committed before a later one, this
-- has both or the earlier one. So a cursor would lose and invert what a page cannot.
-- The rows of one transaction that have one time are told apart by a column that counts, else by cmin, the statements that inserted
-- them, and ctid. Payloads are not read here, but counted as they are stored: a page of large ones would take longer than a relay waits.
WITH page AS MATERIALIZED (
	SELECT t.tableoid::text AS part, t.ctid::text AS place, /*id*/ AS id, /*topic*/ AS topic, /*key*/ AS key, /*type*/ AS type,
		/*stored*/ AS bytes, /*time*/ AS time, /*correlation*/ AS correlation, /*trace*/ AS trace,
		/*headers*/ AS headers, t.cmin::text::bigint AS command, t.ctid AS at/*ordercolumns*/
	FROM /*table*/ AS t
	WHERE (/*pending*/) AND (/*where*/)
		AND (/*topic*/ = ANY ($1::text::text[])) IS NOT TRUE
		AND (/*key*/ = ANY ($2::text::text[])) IS NOT TRUE
		AND ((t.tableoid::text || t.ctid::text) = ANY ($3::text::text[])) IS NOT TRUE
	ORDER BY /*order*/, t.cmin::text::bigint, t.ctid
	LIMIT $4
	FOR UPDATE OF t /*skip*/
), sized AS (
	SELECT page.*, row_number() OVER w AS n, sum(bytes) OVER w AS total
	FROM page WINDOW w AS (ORDER BY /*orderpage*/, command, at ROWS UNBOUNDED PRECEDING)
)
SELECT part, place, id, topic, key, type, time, correlation, trace, headers
FROM sized WHERE total <= /*budget*/ OR n = 1 ORDER BY n;

-- name: Payloads
-- Those of rows of a page, up to a size: a row may hold more than this process has memory. A statement of its own sees what its
-- writer has changed while the page waited for the lock.
SELECT t.tableoid::text || t.ctid::text, CASE WHEN /*size*/ <= /*most*/ THEN /*payload*/ END, coalesce(/*size*/, 0),
	CASE WHEN octet_length(/*headersin*/) <= 65536 THEN /*headersin*/ END, coalesce(octet_length(/*headersin*/), 0)
FROM /*table*/ AS t/*text*/
WHERE t.ctid = ANY ($1::text::tid[]) AND (t.tableoid::text || t.ctid::text) = ANY ($2::text::text[]);

-- name: Mark
-- One statement for all rows of a page. They are locked: each is still where it was.
UPDATE /*table*/ AS t SET /*done*/
WHERE t.ctid = ANY ($1::text::tid[]) AND (t.tableoid::text || t.ctid::text) = ANY ($2::text::text[]);

-- name: Delete
DELETE FROM /*table*/ AS t
WHERE t.ctid = ANY ($1::text::tid[]) AND (t.tableoid::text || t.ctid::text) = ANY ($2::text::text[]);

-- name: Outboxes
-- Tables that are called an outbox, and are not Skald's. A part that has a dot or a quote itself stands in double quotes.
SELECT CASE WHEN pg_table_is_visible(c.oid) THEN '' WHEN n.nspname ~ '[."]' THEN '"' || replace(n.nspname, '"', '""') || '".' ELSE n.nspname || '.' END
	|| CASE WHEN c.relname ~ '[."]' THEN '"' || replace(c.relname, '"', '""') || '"' ELSE c.relname END
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relname ILIKE '%outbox%' AND c.relname NOT LIKE 'skald%'
	AND n.nspname NOT LIKE 'pg\_%' AND n.nspname <> 'information_schema'
ORDER BY 1;
