-- These statements repair an outbox after a restore or a copy. A recovery changes txid, the transaction number of outbox rows. A published row
-- gets 3 if its own number is not valid in this database. A row that relays must read again gets 4, in the next recovery 5, and so on. The
-- snapshot of the recovery has that number as running. User transactions never have such small numbers, because creating a cluster takes
-- hundreds.

-- name: Moved
SELECT coalesce(/*schema*/skald_recovery_reason(), '');

-- name: Here
SELECT /*schema*/skald_check_identity('');

-- name: Horizon
-- Returns the number of the oldest transaction that may still run.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text;

-- name: Recoveries
-- Returns the number of finished recoveries. A recovery reads it first, and GuardRecoveries fails if the number has changed.
SELECT value FROM /*schema*/skald_setting WHERE name = 'recoveries';

-- name: LockPage
-- Waits for another recovery with LockOutbox, which may still run on the server after its client has lost the connection.
LOCK TABLE /*schema*/skald_outbox IN ROW EXCLUSIVE MODE;

-- name: GuardRecoveries
-- Runs after a lock of the outbox. If two recoveries run at the same time, the second must not settle rows that the first gave to the relays.
SELECT /*schema*/skald_require((SELECT value FROM /*schema*/skald_setting WHERE name = 'recoveries') = $1::text, 'the recovery');

-- name: SettlePage
-- Settles at most $2 rows after number $1. $3 is the result of Horizon, $4 that of Recoveries. A row counts as published if the base of a shard
-- includes it, by snapshot and by number. Rows that were written here later have larger numbers, unless the sequence was behind and used numbers
-- again.
WITH again AS MATERIALIZED (
	SELECT (4 + $4::text::integer)::text::xid8 AS txid
), page AS MATERIALIZED (
	SELECT o.seq, o.slot, o.txid, /*bucket*/ AS bucket FROM /*schema*/skald_outbox AS o WHERE o.seq > $1::bigint ORDER BY o.seq LIMIT $2::integer
), base AS MATERIALIZED (
	SELECT l.first_bucket, l.last_bucket, t.snapshot, t.seq FROM /*schema*/skald_shard AS l JOIN /*schema*/skald_snapshot AS t
		ON t.id = nullif(split_part(l.base, '-', 1), '')::bigint AND t.token = split_part(l.base, '-', 2)
), given AS MATERIALIZED (
	SELECT CASE WHEN n.last < greatest(n.top, n.known) THEN n.last ELSE 0 END AS seq FROM (SELECT
		(SELECT coalesce(max(o.seq), 0) FROM (SELECT seq FROM /*schema*/skald_outbox ORDER BY seq DESC LIMIT 1) AS o) AS top,
		(SELECT coalesce(max(b.seq), 0) FROM base AS b) AS known,
		coalesce(pg_sequence_last_value('/*schema*/skald_outbox_seq_seq'::regclass), 0) AS last) AS n
), judged AS MATERIALIZED (
	SELECT p.seq, p.slot, p.txid, p.txid <> (SELECT txid FROM again) AND p.seq > (SELECT seq FROM given) AND EXISTS (SELECT FROM base AS b
		WHERE p.bucket BETWEEN b.first_bucket AND b.last_bucket AND p.seq <= b.seq AND pg_visible_in_snapshot(p.txid, b.snapshot)) AS covered
	FROM page AS p
), u AS (
	UPDATE /*schema*/skald_outbox AS o SET txid = CASE WHEN j.covered THEN '3'::xid8 ELSE (SELECT txid FROM again) END FROM judged AS j
	WHERE o.seq = j.seq AND o.slot = j.slot
		AND CASE WHEN j.covered THEN j.txid >= $3::text::xid8 ELSE j.txid <> (SELECT txid FROM again) END
)
SELECT count(*), coalesce(max(seq), 0), count(*) FILTER (WHERE covered), count(*) FILTER (WHERE NOT covered) FROM judged;

-- name: After
-- Returns a description if a sequence is behind the numbers of stored rows, otherwise ''. It reads the rows first and then the sequence, because
-- writers continue. The numbers of marks have no index, so it reads only the latest marks; after a reset of the sequence, each of them has a
-- larger number.
SELECT coalesce((SELECT format('number %s of %s exists, but the sequence %s has only reached %s', t.top, t.action, t.name, t.last) FROM (
	SELECT 1 AS n, 'skald_parked' AS action, 'skald_parked_place_seq' AS name, (SELECT p.place FROM /*schema*/skald_parked AS p ORDER BY p.place DESC LIMIT 1) AS top, (SELECT s.last_value - (NOT s.is_called)::integer FROM /*schema*/skald_parked_place_seq AS s) AS last
	UNION ALL
	SELECT 2 AS n, 'skald_answer' AS action, 'skald_arrival' AS name, (SELECT a.arrival FROM /*schema*/skald_answer AS a ORDER BY a.arrival DESC LIMIT 1) AS top, (SELECT s.last_value - (NOT s.is_called)::integer FROM /*schema*/skald_arrival AS s) AS last
	UNION ALL
	SELECT 3 AS n, 'skald_mark' AS action, 'skald_arrival' AS name, (SELECT m.arrival FROM /*schema*/skald_mark AS m ORDER BY m.at DESC LIMIT 1) AS top, (SELECT s.last_value - (NOT s.is_called)::integer FROM /*schema*/skald_arrival AS s) AS last
	UNION ALL
	SELECT 5 AS n, 'skald_quarantine' AS action, 'skald_quarantine_number_seq' AS name, (SELECT q.number FROM /*schema*/skald_quarantine AS q ORDER BY q.number DESC LIMIT 1) AS top, (SELECT s.last_value - (NOT s.is_called)::integer FROM /*schema*/skald_quarantine_number_seq AS s) AS last
	UNION ALL
	SELECT 6 AS n, 'skald_audit' AS action, 'skald_audit_seq_seq' AS name, (SELECT a.seq FROM /*schema*/skald_audit AS a ORDER BY a.seq DESC LIMIT 1) AS top, (SELECT s.last_value - (NOT s.is_called)::integer FROM /*schema*/skald_audit_seq_seq AS s) AS last
) AS t WHERE t.top > t.last ORDER BY t.n LIMIT 1), '');

-- name: Patient
SELECT set_config('statement_timeout', '0', true);

-- name: LastArrival
-- Returns the largest number of all marks. It blocks no writer, because rows that are written meanwhile have numbers of the sequence.
SELECT coalesce(greatest((SELECT max(m.arrival) FROM /*schema*/skald_mark AS m),
	(SELECT max(a.arrival) FROM /*schema*/skald_answer AS a)), 0);

-- name: ArrivalAfter
SELECT coalesce((SELECT format('number %s of a mark exists, but the sequence skald_arrival has only reached %s', $1::bigint, s.last_value - (NOT s.is_called)::integer) FROM /*schema*/skald_arrival AS s
	WHERE $1::bigint > s.last_value - (NOT s.is_called)::integer), '');

-- name: LockNumbered
-- Blocks all writers of these tables while the sequences change. The order of the tables is that of an intake, to prevent deadlocks.
LOCK TABLE /*schema*/skald_mark, /*schema*/skald_answer, /*schema*/skald_quarantine, /*schema*/skald_parked, /*schema*/skald_audit
	IN SHARE ROW EXCLUSIVE MODE;

-- name: RaisePlaces
SELECT setval('/*schema*/skald_parked_place_seq'::regclass, t.top) FROM (SELECT max(place) FROM /*schema*/skald_parked) AS t(top), /*schema*/skald_parked_place_seq AS s
WHERE t.top > s.last_value - (NOT s.is_called)::integer;

-- name: RaiseAudits
SELECT setval('/*schema*/skald_audit_seq_seq'::regclass, t.top) FROM (SELECT max(seq) FROM /*schema*/skald_audit) AS t(top), /*schema*/skald_audit_seq_seq AS s
WHERE t.top > s.last_value - (NOT s.is_called)::integer;

-- name: RaiseQuarantined
SELECT setval('/*schema*/skald_quarantine_number_seq'::regclass, t.top) FROM (SELECT max(number) FROM /*schema*/skald_quarantine) AS t(top), /*schema*/skald_quarantine_number_seq AS s
WHERE t.top > s.last_value - (NOT s.is_called)::integer;

-- name: RaiseArrivals
-- Moves the sequence to $1, the result of LastArrival.
SELECT setval('/*schema*/skald_arrival'::regclass, t.top) FROM (SELECT $1::bigint) AS t(top), /*schema*/skald_arrival AS s
WHERE t.top > s.last_value - (NOT s.is_called)::integer;

-- name: RaiseSnapshots
-- Runs in its own transaction, because it uses a transaction number.
SELECT setval('/*schema*/skald_snapshot_id_seq'::regclass, t.id) FROM (SELECT id FROM /*schema*/skald_snapshot ORDER BY id DESC LIMIT 1) AS t
WHERE t.id > coalesce(pg_sequence_last_value('/*schema*/skald_snapshot_id_seq'::regclass), 0);

-- name: LockOutbox
-- Waits for open writers and blocks new ones. It must use no transaction number, because the snapshot after it would include that number as
-- finished.
LOCK TABLE /*schema*/skald_outbox IN EXCLUSIVE MODE;

-- name: RecoverSnapshot
WITH now AS MATERIALIZED (
	SELECT pg_current_snapshot() AS s
), h AS MATERIALIZED (
	SELECT greatest(coalesce(pg_sequence_last_value('/*schema*/skald_outbox_seq_seq'::regclass), 0),
		(SELECT seq FROM /*schema*/skald_outbox ORDER BY seq DESC LIMIT 1),
		(SELECT max(t.seq) FROM /*schema*/skald_shard AS l JOIN /*schema*/skald_snapshot AS t
			ON t.id = nullif(split_part(l.base, '-', 1), '')::bigint AND t.token = split_part(l.base, '-', 2))) AS seq
)
INSERT INTO /*schema*/skald_snapshot (token, snapshot, seq, own_txid, at)
SELECT $1::text, (again || ':' || pg_snapshot_xmax(s)::text || ':' || again
		|| coalesce((SELECT string_agg(',' || x::text, '' ORDER BY x) FROM pg_snapshot_xip(s) AS x), ''))::pg_snapshot,
	h.seq, pg_current_xact_id(), clock_timestamp()
FROM now, h, (SELECT 4 + value::integer AS again FROM /*schema*/skald_setting WHERE name = 'recoveries') AS n;

-- name: RecoverOnce
-- Fails in the second of two recoveries that run at the same time, because nothing is left to recover.
SELECT /*schema*/skald_require(/*schema*/skald_recovery_reason() IS NOT NULL, 'the recovery') FROM /*schema*/skald_setting WHERE name = 'shard lock' FOR UPDATE;

-- name: SettleNew
-- Settles the rows that were committed after their page was settled.
UPDATE /*schema*/skald_outbox SET txid = (SELECT (4 + value::integer)::text::xid8 FROM /*schema*/skald_setting WHERE name = 'recoveries')
WHERE txid >= $1::text::xid8;

-- name: Renumber
-- Gives new numbers, after all other rows, to rows with a number that was used twice. They keep their order. The sequence continues after them.
WITH s AS MATERIALIZED (
	SELECT coalesce(pg_sequence_last_value('/*schema*/skald_outbox_seq_seq'::regclass), 0) AS last, t.seq AS top FROM /*schema*/skald_snapshot AS t WHERE t.token = $1::text
), raised AS MATERIALIZED (
	SELECT setval('/*schema*/skald_outbox_seq_seq'::regclass, s.top) FROM s WHERE s.last < s.top
), gone AS (
	DELETE FROM /*schema*/skald_outbox AS o WHERE EXISTS (SELECT FROM raised) AND o.seq <= (SELECT s.last FROM s) RETURNING o.*
)
INSERT INTO /*schema*/skald_outbox (topic, key, type, data, data_bytes, key_bytes, content_type, schema, subject, correlation_id, causation_id,
	traceparent, headers, time, id, source, txid, slot, bucket, erased_at)
SELECT topic, key, type, data, data_bytes, key_bytes, content_type, schema, subject, correlation_id, causation_id,
	traceparent, headers, time, id, source,
	(SELECT (4 + value::integer)::text::xid8 FROM /*schema*/skald_setting WHERE name = 'recoveries'), slot, bucket, erased_at
FROM gone ORDER BY seq;

-- name: SeatShards
UPDATE /*schema*/skald_shard AS l SET base = t.id || '-' || t.token, tip = '', seq = 0, owner = NULL, session = NULL, epoch = l.epoch + 1,
	token = gen_random_uuid()::text, system = p.system, timeline = p.timeline, database = p.database, changed_at = clock_timestamp()
FROM /*schema*/skald_snapshot AS t, /*schema*/skald_database_identity() AS p
WHERE t.token = $1::text;

-- name: ForgetAllRelays
-- Deletes all relays. A running relay registers again.
DELETE FROM /*schema*/skald_relay;

-- name: EndRecover
UPDATE /*schema*/skald_setting SET value = CASE name WHEN 'recovery reason' THEN '' ELSE (value::integer + 1)::text END WHERE name IN ('recovery reason', 'recoveries');
