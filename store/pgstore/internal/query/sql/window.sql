-- name: Snapshot
-- Stores a snapshot as the end of a window if there are new rows. It takes the snapshot first, then reads the sequence of seq, then takes its
-- own transaction number. This order guarantees that Pull of a later window finds each row that the snapshot lacks. The transaction of such a
-- row runs at the snapshot, or has a number up to our own, or the row has a larger seq: a transaction with a larger number took its seqs after
-- this statement read the sequence. A poll reads at most 10,000 uncommitted rows.
WITH b AS MATERIALIZED (
	SELECT snapshot, seq, own_txid FROM /*schema*/skald_snapshot WHERE id = $1::bigint AND token = $2::text
), h AS MATERIALIZED (
	SELECT coalesce(pg_sequence_last_value('/*schema*/skald_outbox_seq_seq'::regclass), 0) AS seq
), early AS MATERIALIZED (
	SELECT x FROM (SELECT pg_snapshot_xip(snapshot) AS x FROM b
		UNION SELECT n::text::xid8 FROM b, generate_series(pg_snapshot_xmax(snapshot)::text::bigint, least(own_txid::text::bigint, pg_snapshot_xmax(snapshot)::text::bigint + 999)) AS n) AS late
	WHERE pg_visible_in_snapshot(x, pg_current_snapshot())
), i AS (
	INSERT INTO /*schema*/skald_snapshot (token, snapshot, seq, own_txid, at)
	SELECT $3::text, pg_current_snapshot(), h.seq, pg_current_xact_id(), clock_timestamp() FROM h
	WHERE ($1::bigint = 0 OR EXISTS (SELECT FROM b)) AND (
		h.seq > coalesce((SELECT seq FROM b), 0) + 10000
		OR EXISTS (SELECT FROM /*schema*/skald_outbox AS o WHERE o.seq > coalesce((SELECT seq FROM b), 0))
		OR EXISTS (SELECT FROM early CROSS JOIN LATERAL (
			SELECT FROM /*schema*/skald_outbox AS o WHERE o.txid = early.x AND o.seq <= (SELECT seq FROM b) OFFSET 0) AS r)
		OR EXISTS (SELECT FROM /*schema*/skald_outbox AS o
			WHERE o.txid >= (SELECT (pg_snapshot_xmax(snapshot)::text::bigint + 1000)::text::xid8 FROM b)
			AND o.txid <= (SELECT own_txid FROM b) AND o.seq <= (SELECT seq FROM b)))
	RETURNING id
)
SELECT (SELECT count(*) FROM b)::integer, coalesce((SELECT id FROM i), 0)::bigint;

-- name: Snapshots
-- Returns the number of the two ticks that exist, and the seq of the first tick.
SELECT count(*)::integer, coalesce(max(seq) FILTER (WHERE id = $1::bigint), 0)::bigint FROM /*schema*/skald_snapshot WHERE (id, token) IN (($1::bigint, $2::text), ($3::bigint, $4::text));

-- name: Pull
-- Reads a page of a window. First come the rows of transactions that were running at the base; all have a seq up to that of the base. Then it
-- walks the primary key. There, a condition on txid could not use an index, and the page must not be sorted. The page ends at the limit of
-- bytes. For a row that is too large, it reads only the size and the hash. The window function has no ORDER BY, because its rows are already in
-- order.
WITH b AS MATERIALIZED (
	SELECT snapshot, seq, own_txid FROM /*schema*/skald_snapshot WHERE id = $1::bigint AND token = $2::text
), t AS MATERIALIZED (
	SELECT snapshot, seq FROM /*schema*/skald_snapshot WHERE id = $3::bigint AND token = $4::text
), early AS MATERIALIZED (
	SELECT x FROM (SELECT pg_snapshot_xip(snapshot) AS x FROM b WHERE seq > $5::bigint
		UNION SELECT n::text::xid8 FROM b, generate_series(pg_snapshot_xmax(snapshot)::text::bigint, least(own_txid::text::bigint, pg_snapshot_xmax(snapshot)::text::bigint + 999)) AS n WHERE seq > $5::bigint) AS late
	WHERE pg_visible_in_snapshot(x, (SELECT snapshot FROM t))
)
SELECT /*columns*/ FROM (SELECT w.*, /*upto*/ FROM (
(SELECT r.* FROM (
	SELECT e.* FROM early CROSS JOIN LATERAL (
		SELECT /*raw*/ FROM /*schema*/skald_outbox AS o
		WHERE o.txid = early.x AND o.seq > $5::bigint AND o.seq <= (SELECT seq FROM b) /*filter*/
		ORDER BY o.seq LIMIT $6::integer) AS e
	UNION ALL
	(SELECT /*raw*/ FROM /*schema*/skald_outbox AS o
	WHERE o.txid >= (SELECT (pg_snapshot_xmax(snapshot)::text::bigint + 1000)::text::xid8 FROM b WHERE seq > $5::bigint)
		AND o.txid <= (SELECT own_txid FROM b) AND o.seq > $5::bigint AND o.seq <= (SELECT seq FROM b)
		AND pg_visible_in_snapshot(o.txid, (SELECT snapshot FROM t)) /*filter*/)
	) AS r ORDER BY r.seq LIMIT $6::integer)
UNION ALL
(SELECT /*raw*/ FROM /*schema*/skald_outbox AS o
WHERE o.seq > greatest($5::bigint, (SELECT seq FROM b)) AND o.seq <= (SELECT seq FROM t)
	AND pg_visible_in_snapshot(o.txid, (SELECT snapshot FROM t)) /*filter*/
ORDER BY o.seq LIMIT $6::integer)
LIMIT $6::integer
) AS w WINDOW p AS (ROWS UNBOUNDED PRECEDING)) AS o WHERE o.upto <= /*pagebytes*/;

-- name: PullOn
-- Does as Pull for a page after the seq of the base, which needs only the walk of the primary key. It takes a third of the planning time.
WITH t AS MATERIALIZED (
	SELECT snapshot, seq FROM /*schema*/skald_snapshot WHERE id = $1::bigint AND token = $2::text
)
SELECT /*columns*/ FROM (SELECT w.*, /*upto*/ FROM (
SELECT /*raw*/ FROM /*schema*/skald_outbox AS o
WHERE o.seq > $3::bigint AND o.seq <= (SELECT seq FROM t)
	AND pg_visible_in_snapshot(o.txid, (SELECT snapshot FROM t)) /*filter*/
ORDER BY o.seq LIMIT $4::integer
) AS w WINDOW p AS (ROWS UNBOUNDED PRECEDING)) AS o WHERE o.upto <= /*pagebytes*/;

-- name: PullLight
-- Does as PullOn without the sum of bytes, because the sum takes longer than reading the rows. It does not read the content of rows above $5
-- bytes. The client ends the page before the first such row, or at the limit of bytes.
WITH t AS MATERIALIZED (
	SELECT snapshot, seq FROM /*schema*/skald_snapshot WHERE id = $1::bigint AND token = $2::text
)
SELECT /*lightcolumns*/ FROM (
SELECT /*lightraw*/ FROM /*schema*/skald_outbox AS o
WHERE o.seq > $3::bigint AND o.seq <= (SELECT seq FROM t)
	AND pg_visible_in_snapshot(o.txid, (SELECT snapshot FROM t)) /*filter*/
ORDER BY o.seq LIMIT $4::integer
) AS o;
