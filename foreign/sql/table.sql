-- The relay replaces the names in /*…*/ by parts of the column map.

-- name: Columns
-- The table, its columns, and the rights of this user. The type of a domain is its base type.
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
-- A statement that every database accepts, to test whether it answers.
SELECT 1;

-- name: Peek
-- True if there is a row to publish. The statement locks no rows.
SELECT EXISTS (SELECT FROM /*table*/ AS t WHERE (/*pending*/) AND (/*where*/)
	AND (/*topic*/ = ANY ($1::text::text[])) IS NOT TRUE
	AND (/*key*/ = ANY ($2::text::text[])) IS NOT TRUE
	AND ((t.tableoid::text || t.ctid::text) = ANY ($3::text::text[])) IS NOT TRUE);

-- name: Bound
-- The server ends the idle transaction of a paused process, so that it does not keep its locks forever.
SELECT set_config('idle_in_transaction_session_timeout', '/*idle*/', true);

-- name: Begin
-- The page waits for the broker in this transaction. This may take longer than transaction_timeout allows, and the server would then
-- roll back the marks of published rows. So the statement disables the timeout. Versions before 17 do not have it.
-- The server releases the locks of a relay that is gone after the idle timeout. The lock timeout limits the wait for locks of the table.
-- Only one relay at a time can have the advisory lock of this table. The lock ends with the transaction.
SELECT set_config('lock_timeout', '5s', true), set_config('idle_in_transaction_session_timeout', '/*idle*/', true),
	CASE WHEN current_setting('transaction_timeout', true) <> '0' THEN set_config('transaction_timeout', '0', true) ELSE '' END,
	/*claim*/;

-- name: Page
-- A page has the first rows that are not done, from one snapshot. If the earlier of two rows of a key was committed first, the page has
-- both rows, or only the earlier one. A cursor would not guarantee this: it could lose and reorder rows.
-- An identity column orders the rows of a transaction that have the same time. Without one, cmin (the number of the statement that inserted
-- the row) and ctid order them. The statement reads only the sizes of payloads, because reading large payloads could exceed the timeout.
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
	FOR UPDATE OF t SKIP LOCKED
), sized AS (
	SELECT page.*, row_number() OVER w AS n, sum(bytes) OVER w AS total
	FROM page WINDOW w AS (ORDER BY /*orderpage*/, command, at ROWS UNBOUNDED PRECEDING)
)
SELECT part, place, id, topic, key, type, time, correlation, trace, headers
FROM sized WHERE total <= /*budget*/ OR n = 1 ORDER BY n;

-- name: OrderedPage
-- OrderedPage is Page for a relay that keeps the order of each key. A row that another session has locked is not in the page, and neither is
-- any row of its key. So one locked row delays only its key.
WITH seen AS MATERIALIZED (
	SELECT t.tableoid::text AS part, t.ctid AS at, /*key*/ AS key
	FROM /*table*/ AS t
	WHERE (/*pending*/) AND (/*where*/)
		AND (/*topic*/ = ANY ($1::text::text[])) IS NOT TRUE
		AND (/*key*/ = ANY ($2::text::text[])) IS NOT TRUE
		AND ((t.tableoid::text || t.ctid::text) = ANY ($3::text::text[])) IS NOT TRUE
	ORDER BY /*order*/, t.cmin::text::bigint, t.ctid
	LIMIT $4
), page AS MATERIALIZED (
	SELECT t.tableoid::text AS part, t.ctid::text AS place, /*id*/ AS id, /*topic*/ AS topic, /*key*/ AS key, /*type*/ AS type,
		/*stored*/ AS bytes, /*time*/ AS time, /*correlation*/ AS correlation, /*trace*/ AS trace,
		/*headers*/ AS headers, t.cmin::text::bigint AS command, t.ctid AS at/*ordercolumns*/
	FROM /*table*/ AS t
	WHERE (/*pending*/) AND (/*where*/)
		AND t.ctid = ANY (ARRAY(SELECT at FROM seen)) AND (t.tableoid::text || t.ctid::text) = ANY (ARRAY(SELECT part || at::text FROM seen))
	FOR UPDATE OF t SKIP LOCKED
), locked AS MATERIALIZED (
	SELECT part, at, key FROM seen EXCEPT SELECT part, at, key FROM page
), sized AS (
	SELECT page.*, row_number() OVER w AS n, sum(bytes) OVER w AS total
	FROM page WHERE (key = ANY (ARRAY(SELECT locked.key FROM locked))) IS NOT TRUE
	WINDOW w AS (ORDER BY /*orderpage*/, command, at ROWS UNBOUNDED PRECEDING)
)
SELECT part, place, id, topic, key, type, time, correlation, trace, headers
FROM sized WHERE total <= /*budget*/ OR n = 1 ORDER BY n;

-- name: Payloads
-- The payloads of rows of a page, up to a maximum size, because a row may be larger than the memory of this process. A separate
-- statement also sees the changes that a writer committed while the page waited for the lock.
SELECT t.tableoid::text || t.ctid::text, CASE WHEN /*size*/ <= /*most*/ THEN /*payload*/ END, coalesce(/*size*/, 0),
	CASE WHEN octet_length(/*headersin*/) <= 65536 THEN /*headersin*/ END, coalesce(octet_length(/*headersin*/), 0)
FROM /*table*/ AS t/*text*/
WHERE t.ctid = ANY ($1::text::tid[]) AND (t.tableoid::text || t.ctid::text) = ANY ($2::text::text[]);

-- name: Mark
-- One statement marks all rows of a page. The rows are locked, so their ctids have not changed.
UPDATE /*table*/ AS t SET /*done*/
WHERE t.ctid = ANY ($1::text::tid[]) AND (t.tableoid::text || t.ctid::text) = ANY ($2::text::text[]);

-- name: Delete
DELETE FROM /*table*/ AS t
WHERE t.ctid = ANY ($1::text::tid[]) AND (t.tableoid::text || t.ctid::text) = ANY ($2::text::text[]);

-- name: Outboxes
-- Tables with a name like an outbox, except those of Skald. A part that contains a dot or a quote is in double quotes.
SELECT CASE WHEN pg_table_is_visible(c.oid) THEN '' WHEN n.nspname ~ '[."]' THEN '"' || replace(n.nspname, '"', '""') || '".' ELSE n.nspname || '.' END
	|| CASE WHEN c.relname ~ '[."]' THEN '"' || replace(c.relname, '"', '""') || '"' ELSE c.relname END
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relname ILIKE '%outbox%' AND c.relname NOT LIKE 'skald%'
	AND n.nspname NOT LIKE 'pg\_%' AND n.nspname <> 'information_schema'
ORDER BY 1;
