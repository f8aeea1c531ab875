-- name: FindKept
SELECT place, key, attempts, dead_at IS NOT NULL FROM skald_parked WHERE consumer = ?1 AND source = ?2 AND id = ?3;

-- name: FirstOfKey
-- Whatever a message asks for names its index: where nearly all rows are of one key, ANALYZE has the planner believe that a key tells nothing,
-- and read all places in order.
SELECT place FROM skald_parked INDEXED BY skald_parked_key
WHERE consumer = ?1 AND key = ?2 AND key IS NOT NULL AND holds = 1 AND place > ?3 ORDER BY place LIMIT 1;

-- name: RoomOfKey
-- What is parked of a key, and how its last row is numbered. A dead letter that holds its key again has numbers of another time: it
-- counts as one at least.
SELECT max(l.nth - f.nth + 1, 1), max(l.running - f.running + f.bytes, f.bytes), l.nth, l.running FROM
	(SELECT nth, running, bytes FROM skald_parked INDEXED BY skald_parked_key WHERE consumer = ?1 AND key = ?2 AND key IS NOT NULL AND holds = 1
		ORDER BY place LIMIT 1) AS f,
	(SELECT nth, running FROM skald_parked INDEXED BY skald_parked_key WHERE consumer = ?1 AND key = ?2 AND key IS NOT NULL AND holds = 1
		ORDER BY place DESC LIMIT 1) AS l;

-- name: InsertKept
INSERT INTO skald_parked (consumer, source, id, attempts, due, holds, first_at, first_error, first_host, last_at, last_error, last_host,
	dead_at, kind, fingerprint, stack, version, key, topic, type, data, envelope, bytes, lane, position, fault, waiting, nth, running, call, claims, kills, claimer)
VALUES (?1, ?2, ?3, ?4, CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17,
	?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33);

-- name: ReplaceKept
-- Another message of the key takes the place of the one at ?27 and ?28.
UPDATE skald_parked SET source = ?2, id = ?3, attempts = ?4, due = CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?5, holds = ?6, first_at = ?7,
	first_error = ?8, first_host = ?9, last_at = ?10, last_error = ?11, last_host = ?12, dead_at = ?13, kind = ?14, fingerprint = ?15, stack = ?16,
	version = ?17, key = ?18, topic = ?19, type = ?20, data = ?21, envelope = ?22, bytes = ?23, lane = ?24, position = ?25, fault = ?26,
	since = CAST(unixepoch('subsec') * 1000 AS INTEGER), call = ?29, claims = 0, kills = 0, claimer = ''
WHERE consumer = ?1 AND source = ?27 AND id = ?28 AND call IS NULL;

-- name: UpdateKept
UPDATE skald_parked SET attempts = ?4, due = CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?5, holds = ?6, first_at = ?7, first_error = ?8,
	first_host = ?9, last_at = ?10, last_error = ?11, last_host = ?12, dead_at = ?13, kind = ?14, fingerprint = ?15, stack = ?16, version = ?17, call = ?18,
	claims = ?19, kills = ?20, claimer = ?21
WHERE consumer = ?1 AND source = ?2 AND id = ?3 AND coalesce(call ->> '$.key', '') = ?22
	AND NOT (waiting = 1 AND call IS NULL AND ?18 IS NOT NULL);

-- name: StepBack
-- Before a dead letter that had freed its key holds it again. Where one that came behind it is at a call, it goes behind all of its key: else each
-- may wait for the other.
UPDATE skald_parked AS p SET
	place = 1 + max((SELECT seq FROM sqlite_sequence WHERE name = 'skald_parked'), (SELECT max(place) FROM skald_parked)),
	nth = 1 + coalesce((SELECT l.nth FROM skald_parked AS l INDEXED BY skald_parked_key
		WHERE l.consumer = p.consumer AND l.key = p.key AND l.key IS NOT NULL AND l.holds = 1 ORDER BY l.place DESC LIMIT 1), 0),
	running = p.bytes + coalesce((SELECT l.running FROM skald_parked AS l INDEXED BY skald_parked_key
		WHERE l.consumer = p.consumer AND l.key = p.key AND l.key IS NOT NULL AND l.holds = 1 ORDER BY l.place DESC LIMIT 1), 0)
WHERE consumer = ?1 AND source = ?2 AND id = ?3 AND key IS NOT NULL AND holds = 0 AND EXISTS (
	SELECT 1 FROM skald_parked AS c INDEXED BY skald_parked_call WHERE c.consumer = p.consumer AND c.call IS NOT NULL AND c.place > p.place AND c.key = p.key);

-- name: ReleaseKept
UPDATE skald_parked SET attempts = 0, claims = 0, kills = 0, due = 0, holds = 1, dead_at = NULL, kind = '', fingerprint = '', stack = '', version = '',
	first_at = CASE WHEN first_at IS NOT NULL THEN strftime('%Y-%m-%dT%H:%M:%fZ', 'now') END
WHERE consumer = ?1 AND source = ?2 AND id = ?3;

-- name: ReleaseDead
UPDATE skald_parked SET attempts = 0, claims = 0, kills = 0, due = 0, holds = 1, dead_at = NULL, kind = '', fingerprint = '', stack = '', version = '',
	first_at = CASE WHEN first_at IS NOT NULL THEN strftime('%Y-%m-%dT%H:%M:%fZ', 'now') END
WHERE consumer = ?1 AND source = ?2 AND id = ?3 AND dead_at IS NOT NULL;

-- name: DeleteKept
DELETE FROM skald_parked WHERE consumer = ?1 AND source = ?2 AND id = ?3 AND (?4 IS NULL OR coalesce(call ->> '$.key', '') = ?4)
	AND (NOT ?5 OR dead_at IS NOT NULL) AND ?6 IN (0, place);

-- name: LetGo
-- A dead letter whose step is barred or undone can do nothing any more: it holds nobody.
UPDATE skald_parked SET holds = 0 WHERE consumer = ?1 AND source = ?2 AND id = ?3 AND dead_at IS NOT NULL AND EXISTS (
	SELECT 1 FROM skald_step WHERE consumer = ?1 AND saga = ?4 AND step = ?5 AND occurrence = ?6 AND state IN (6, 7));

-- name: OthersWait
UPDATE skald_parked INDEXED BY skald_parked_front SET waiting = 1
WHERE consumer = ?1 AND key = ?2 AND key IS NOT NULL AND holds = 1 AND waiting = 0 AND place > ?3;

-- name: FirstIsDue
UPDATE skald_parked SET waiting = 0, due = CAST(unixepoch('subsec') * 1000 AS INTEGER) WHERE place = ?1 AND waiting = 1;

-- name: SomeDue
SELECT EXISTS (SELECT 1 FROM skald_parked INDEXED BY skald_parked_due WHERE consumer = ?1 AND dead_at IS NULL AND waiting = 0
	AND due <= CAST(unixepoch('subsec') * 1000 AS INTEGER) AND topic || char(31) || type NOT IN (SELECT value FROM json_each(?2)));

-- name: Claim
-- What was read along is of use only where there was no answer.
UPDATE skald_parked SET due = CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?3, claims = claims + 1, claimer = ?4,
	along = CASE WHEN claims > 0 THEN along END
WHERE place IN (SELECT place FROM skald_parked INDEXED BY skald_parked_due WHERE consumer = ?1 AND dead_at IS NULL AND waiting = 0
	AND due <= CAST(unixepoch('subsec') * 1000 AS INTEGER) AND topic || char(31) || type NOT IN (SELECT value FROM json_each(?5))
	ORDER BY due LIMIT ?2)
RETURNING consumer, source, id, attempts, 0, holds, first_at, first_error, first_host, last_at, last_error, last_host,
	dead_at, kind, fingerprint, stack, version, key, data, envelope, lane, position, fault, waiting, place, since, call, claims, kills, claimer;

-- name: Along
-- What is directly behind the first of a key.
SELECT p.consumer, p.source, p.id, p.attempts, 0, p.holds, p.first_at, p.first_error, p.first_host, p.last_at, p.last_error, p.last_host,
	p.dead_at, p.kind, p.fingerprint, p.stack, p.version, p.key, p.data, p.envelope, p.lane, p.position, p.fault, p.waiting, p.place, p.since, p.call,
	p.claims, p.kills, p.claimer
FROM skald_parked AS f JOIN skald_parked AS p INDEXED BY skald_parked_key
	ON p.consumer = f.consumer AND p.key = f.key AND p.key IS NOT NULL AND p.holds = 1 AND p.place > f.place
WHERE f.place = ?1 ORDER BY p.place LIMIT ?2;

-- name: NoteAlong
UPDATE skald_parked SET along = ?2 WHERE place = ?1;

-- name: CountAlong
-- Those that were read along with the first of a key: they were in hand, too, when there was no answer.
UPDATE skald_parked SET claims = claims + (place <> ?1), along = NULL
WHERE place = ?1 OR place IN (
	SELECT p.place FROM skald_parked AS f JOIN skald_parked AS p INDEXED BY skald_parked_key
	ON p.consumer = f.consumer AND p.key = f.key AND p.key IS NOT NULL AND p.holds = 1 AND p.place > f.place AND p.place <= f.along
	WHERE f.place = ?1);

-- name: NextDue
SELECT coalesce(max(min(due) - CAST(unixepoch('subsec') * 1000 AS INTEGER), 1), 0)
FROM skald_parked INDEXED BY skald_parked_due
WHERE consumer = ?1 AND dead_at IS NULL AND waiting = 0 AND topic || char(31) || type NOT IN (SELECT value FROM json_each(?2));

-- name: Kept
SELECT consumer, source, id, attempts, max(due - CAST(unixepoch('subsec') * 1000 AS INTEGER), 0), holds, first_at, first_error, first_host,
	last_at, last_error, last_host, dead_at, kind, fingerprint, stack, version, key, CASE WHEN NOT ?2 THEN data END, envelope, lane, position,
	fault, waiting, place, since, call, claims, kills, claimer
FROM skald_parked/*index*/
WHERE place > ?1/*where*/
ORDER BY place LIMIT ?3;

-- name: Keeping
SELECT parked, dead, bytes, CAST(oldest_seconds * 1000 AS INTEGER) FROM skald_keeping WHERE consumer = ?1;

-- name: InsertAudit
INSERT INTO skald_audit (who, why, what, consumer, source, id, run) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7);

-- name: Audited
SELECT seq, at, who, why, what, consumer, source, id, run FROM skald_audit WHERE run = ?1 AND run <> '' AND seq > ?2 ORDER BY seq LIMIT ?3;

-- name: AuditedLast
SELECT seq, at, who, why, what, consumer, source, id, run FROM skald_audit WHERE seq < ?1 ORDER BY seq DESC LIMIT ?2;
