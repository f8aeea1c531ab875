-- name: FindParked
SELECT place, key, attempts, coalesce(dead_at, '') FROM skald_parked WHERE consumer = ?1 AND source = ?2 AND id = ?3;

-- name: FirstOfKey
-- Each look-up names its index. Otherwise, if nearly all rows have one key, the planner avoids that index after ANALYZE and reads all places in
-- order.
SELECT place FROM skald_parked INDEXED BY skald_parked_key
WHERE consumer = ?1 AND key = ?2 AND key IS NOT NULL AND blocks_key = 1 AND place > ?3 ORDER BY place LIMIT 1;

-- name: RoomOfKey
-- Returns the count and the bytes of the parked messages of a key, and the running numbers of its last row. A dead letter that blocks its key
-- again has an older number and counts as at least one.
SELECT max(l.running_count - f.running_count + 1, 1), max(l.running_bytes - f.running_bytes + f.bytes, f.bytes), l.running_count, l.running_bytes FROM
	(SELECT running_count, running_bytes, bytes FROM skald_parked INDEXED BY skald_parked_key WHERE consumer = ?1 AND key = ?2 AND key IS NOT NULL AND blocks_key = 1
		ORDER BY place LIMIT 1) AS f,
	(SELECT running_count, running_bytes FROM skald_parked INDEXED BY skald_parked_key WHERE consumer = ?1 AND key = ?2 AND key IS NOT NULL AND blocks_key = 1
		ORDER BY place DESC LIMIT 1) AS l;

-- name: InsertParked
INSERT INTO skald_parked (consumer, source, id, attempts, due, blocks_key, first_at, first_error, first_host, last_at, last_error, last_host,
	dead_at, kind, fingerprint, stack, version, key, topic, type, data, envelope, bytes, partition, position, fault, waiting, running_count, running_bytes, call, claims, crash_count, claimed_by,
	failures)
VALUES (?1, ?2, ?3, ?4, CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17,
	?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29,
	CASE WHEN ?30 ->> '$.since' IS NULL THEN json_set(?30, '$.since', strftime('%Y-%m-%dT%H:%M:%fZ', 'now')) ELSE ?30 END, ?31, ?32, ?33, ?34);

-- name: ReplaceParked
-- Replaces the message with the source ?27 and the ID ?28 by another message of the same key.
UPDATE skald_parked SET source = ?2, id = ?3, attempts = ?4, due = CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?5, blocks_key = ?6, first_at = ?7,
	first_error = ?8, first_host = ?9, last_at = ?10, last_error = ?11, last_host = ?12, dead_at = ?13, kind = ?14, fingerprint = ?15, stack = ?16,
	version = ?17, key = ?18, topic = ?19, type = ?20, data = ?21, envelope = ?22, bytes = ?23, partition = ?24, position = ?25, fault = ?26,
	since = CAST(unixepoch('subsec') * 1000 AS INTEGER), call = CASE WHEN ?29 ->> '$.since' IS NULL THEN json_set(?29, '$.since', strftime('%Y-%m-%dT%H:%M:%fZ', 'now')) ELSE ?29 END,
	claims = 0, crash_count = 0, claimed_by = '', waiting = waiting AND ?6, failures = ?30
WHERE consumer = ?1 AND source = ?27 AND id = ?28 AND call IS NULL;

-- name: UpdateParked
UPDATE skald_parked SET attempts = ?4, due = CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?5, blocks_key = ?6, first_at = ?7, first_error = ?8,
	first_host = ?9, last_at = ?10, last_error = ?11, last_host = ?12, dead_at = ?13, kind = ?14, fingerprint = ?15, stack = ?16, version = ?17,
	call = CASE WHEN ?18 ->> '$.since' IS NULL THEN json_set(?18, '$.since', coalesce(CASE WHEN call ->> '$.key' = ?18 ->> '$.key' THEN call ->> '$.since' END, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))) ELSE ?18 END,
	claims = ?19, crash_count = ?20, claimed_by = ?21, waiting = waiting AND ?6, failures = ?25
WHERE consumer = ?1 AND source = ?2 AND id = ?3 AND coalesce(call ->> '$.key', '') = ?22
	AND NOT (waiting = 1 AND call IS NULL AND ?18 IS NOT NULL) AND (?23 IS NULL OR claims = ?23 AND claimed_by = ?24);

-- name: StepBack
-- Runs before a dead letter that did not block its key blocks the key again. If a later message of the key has an external call in progress, the
-- dead letter goes to the end of the key. Otherwise both could wait for each other.
UPDATE skald_parked AS p SET
	place = 1 + max((SELECT seq FROM sqlite_sequence WHERE name = 'skald_parked'), (SELECT max(place) FROM skald_parked)),
	running_count = 1 + coalesce((SELECT l.running_count FROM skald_parked AS l INDEXED BY skald_parked_key
		WHERE l.consumer = p.consumer AND l.key = p.key AND l.key IS NOT NULL AND l.blocks_key = 1 ORDER BY l.place DESC LIMIT 1), 0),
	running_bytes = p.bytes + coalesce((SELECT l.running_bytes FROM skald_parked AS l INDEXED BY skald_parked_key
		WHERE l.consumer = p.consumer AND l.key = p.key AND l.key IS NOT NULL AND l.blocks_key = 1 ORDER BY l.place DESC LIMIT 1), 0)
WHERE consumer = ?1 AND source = ?2 AND id = ?3 AND key IS NOT NULL AND blocks_key = 0 AND EXISTS (
	SELECT 1 FROM skald_parked AS c INDEXED BY skald_parked_call WHERE c.consumer = p.consumer AND c.call IS NOT NULL AND c.place > p.place AND c.key = p.key);

-- name: RequeueParked
UPDATE skald_parked SET attempts = 0, claims = 0, crash_count = 0, due = 0, blocks_key = 1, dead_at = NULL, kind = '', fingerprint = '', stack = '', version = '',
	first_at = CASE WHEN first_at IS NOT NULL THEN strftime('%Y-%m-%dT%H:%M:%fZ', 'now') END
WHERE consumer = ?1 AND source = ?2 AND id = ?3;

-- name: RequeueDead
UPDATE skald_parked SET attempts = 0, claims = 0, crash_count = 0, due = 0, blocks_key = 1, dead_at = NULL, kind = '', fingerprint = '', stack = '', version = '',
	first_at = CASE WHEN first_at IS NOT NULL THEN strftime('%Y-%m-%dT%H:%M:%fZ', 'now') END
WHERE consumer = ?1 AND source = ?2 AND id = ?3 AND dead_at IS NOT NULL;

-- name: DeleteParked
DELETE FROM skald_parked WHERE consumer = ?1 AND source = ?2 AND id = ?3 AND (?4 IS NULL OR coalesce(call ->> '$.key', '') = ?4)
	AND ?5 IN (0, place);

-- name: LetGo
-- Makes a dead letter stop blocking its key if its step is barred or undone, because the message can have no effect any more.
UPDATE skald_parked SET blocks_key = 0 WHERE consumer = ?1 AND source = ?2 AND id = ?3 AND dead_at IS NOT NULL AND EXISTS (
	SELECT 1 FROM skald_step WHERE consumer = ?1 AND saga = ?4 AND step = ?5 AND occurrence = ?6 AND state IN (6, 7));

-- name: OthersWait
UPDATE skald_parked INDEXED BY skald_parked_front SET waiting = 1
WHERE consumer = ?1 AND key = ?2 AND key IS NOT NULL AND blocks_key = 1 AND waiting = 0 AND place > ?3;

-- name: FirstIsDue
UPDATE skald_parked SET waiting = 0, due = CAST(unixepoch('subsec') * 1000 AS INTEGER) WHERE place = ?1 AND waiting = 1;

-- name: SomeDue
-- Returns whether a message is due, and whether an operator admitted a message from the quarantine.
SELECT EXISTS (SELECT 1 FROM skald_parked INDEXED BY skald_parked_due WHERE consumer = ?1 AND dead_at IS NULL AND waiting = 0
	AND due <= CAST(unixepoch('subsec') * 1000 AS INTEGER) AND topic || char(31) || type NOT IN (SELECT value FROM json_each(?2))),
	EXISTS (SELECT 1 FROM skald_quarantine WHERE consumer = ?1 AND admitted_at IS NOT NULL AND taken_at IS NULL);

-- name: Claim
-- Claims a message. prefetched_to matters only if the process of the claim is lost.
UPDATE skald_parked SET due = CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?3, claims = claims + 1, claimed_by = ?4,
	prefetched_to = CASE WHEN claims > 0 THEN prefetched_to END
WHERE place IN (SELECT place FROM (
	SELECT place, row_number() OVER p AS n, sum(size) OVER p AS upto FROM (
		SELECT place, bytes + coalesce(octet_length(envelope), 0) AS size
		FROM skald_parked INDEXED BY skald_parked_due WHERE consumer = ?1 AND dead_at IS NULL AND waiting = 0
			AND due <= CAST(unixepoch('subsec') * 1000 AS INTEGER) AND topic || char(31) || type NOT IN (SELECT value FROM json_each(?5))
		ORDER BY due LIMIT ?2
	) WINDOW p AS (ROWS UNBOUNDED PRECEDING)
) WHERE upto <= ?6 OR n = 1)
RETURNING consumer, source, id, attempts, 0, blocks_key, first_at, first_error, first_host, last_at, last_error, last_host,
	dead_at, kind, fingerprint, stack, version, key, data, envelope, partition, position, fault, waiting, place, since, call, claims, crash_count, claimed_by, failures;

-- name: Prefetch
-- Returns the messages directly after the first message of a key, up to a limit of bytes.
SELECT consumer, source, id, attempts, 0, blocks_key, first_at, first_error, first_host, last_at, last_error, last_host,
	dead_at, kind, fingerprint, stack, version, key, data, envelope, partition, position, fault, waiting, place, since, call,
	claims, crash_count, claimed_by, failures
FROM (
	SELECT p.*, sum(p.bytes + coalesce(octet_length(p.envelope), 0)) OVER (ROWS UNBOUNDED PRECEDING) AS upto FROM (
		SELECT p.* FROM skald_parked AS f JOIN skald_parked AS p INDEXED BY skald_parked_key
			ON p.consumer = f.consumer AND p.key = f.key AND p.key IS NOT NULL AND p.blocks_key = 1 AND p.place > f.place
		WHERE f.place = ?1 ORDER BY p.place LIMIT ?2
	) AS p
)
WHERE upto <= ?3;

-- name: NotePrefetch
UPDATE skald_parked SET prefetched_to = ?2 WHERE place = ?1;

-- name: CountPrefetch
-- Counts a lost claim for the messages that it prefetched with the first message of a key, because they were in progress, too.
UPDATE skald_parked SET claims = claims + (place <> ?1), prefetched_to = NULL
WHERE place = ?1 OR place IN (
	SELECT p.place FROM skald_parked AS f JOIN skald_parked AS p INDEXED BY skald_parked_key
	ON p.consumer = f.consumer AND p.key = f.key AND p.key IS NOT NULL AND p.blocks_key = 1 AND p.place > f.place AND p.place <= f.prefetched_to
	WHERE f.place = ?1);

-- name: NextDue
SELECT coalesce(max(min(due) - CAST(unixepoch('subsec') * 1000 AS INTEGER), 1), 0)
FROM skald_parked INDEXED BY skald_parked_due
WHERE consumer = ?1 AND dead_at IS NULL AND waiting = 0 AND topic || char(31) || type NOT IN (SELECT value FROM json_each(?2));

-- name: Parked
SELECT consumer, source, id, attempts, max(due - CAST(unixepoch('subsec') * 1000 AS INTEGER), 0), blocks_key, first_at, first_error, first_host,
	last_at, last_error, last_host, dead_at, kind, fingerprint, stack, version, key, CASE WHEN NOT ?2 THEN data END, envelope, partition, position,
	fault, waiting, place, since, call, claims, crash_count, claimed_by, failures
FROM skald_parked/*index*/
WHERE place > ?1/*where*/
ORDER BY place LIMIT ?3;

-- name: Keeping
SELECT parked, dead, parked_bytes, dead_bytes, CAST(parked_seconds * 1000 AS INTEGER) FROM skald_consumers WHERE consumer = ?1;
