-- name: Covered
-- Returns the seq up to which all shards have published all rows.
SELECT coalesce(min(max(CAST(base AS INTEGER), CASE WHEN tip IN ('', base) THEN 0 ELSE min(seq, CAST(tip AS INTEGER)) END)), 0)
FROM skald_shard;

-- name: DeleteRows
-- Deletes expired rows among the ?3 oldest rows.
DELETE FROM skald_outbox WHERE seq IN (
	SELECT seq FROM (SELECT seq, stored_at FROM skald_outbox WHERE seq <= ?1 ORDER BY seq LIMIT ?3)
	WHERE stored_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?2));

-- name: RaiseFloors
-- Raises the floor to the latest of the marks that DeleteMarks deletes next in this transaction.
INSERT INTO skald_floor (consumer, at)
SELECT consumer, max(written) FROM (
	SELECT consumer, written FROM skald_mark WHERE written < CAST(unixepoch('now', 'subsec', ?1) * 1000 AS INTEGER)
		AND (until IS NULL OR until <= CAST(unixepoch('subsec') * 1000 AS INTEGER)) ORDER BY written LIMIT ?2)
WHERE true GROUP BY consumer
ON CONFLICT (consumer) DO UPDATE SET at = max(at, excluded.at);

-- name: DeleteMarks
-- Deletes the marks below the floors, the oldest first.
DELETE FROM skald_mark WHERE arrival IN (
	SELECT m.arrival FROM skald_mark AS m JOIN skald_floor AS f ON f.consumer = m.consumer
	WHERE m.written < CAST(unixepoch('now', 'subsec', ?1) * 1000 AS INTEGER) AND m.written <= f.at
		AND (m.until IS NULL OR m.until <= CAST(unixepoch('subsec') * 1000 AS INTEGER)) ORDER BY m.written LIMIT ?2);

-- name: RaiseExpired
-- Does as RaiseFloors for marks with a shorter Keep of their own. It ignores marks of the last ?1, because nothing compares messages of that
-- time with the floor.
INSERT INTO skald_floor (consumer, at)
SELECT consumer, max(written) FROM (
	SELECT consumer, written FROM skald_mark WHERE until <= CAST(unixepoch('subsec') * 1000 AS INTEGER)
		AND written < CAST(unixepoch('now', 'subsec', ?1) * 1000 AS INTEGER) ORDER BY until LIMIT ?2)
WHERE true GROUP BY consumer
ON CONFLICT (consumer) DO UPDATE SET at = max(at, excluded.at);

-- name: DeleteExpired
DELETE FROM skald_mark WHERE arrival IN (
	SELECT m.arrival FROM skald_mark AS m JOIN skald_floor AS f ON f.consumer = m.consumer
	WHERE m.until <= CAST(unixepoch('subsec') * 1000 AS INTEGER) AND m.written < CAST(unixepoch('now', 'subsec', ?1) * 1000 AS INTEGER)
		AND m.written <= f.at ORDER BY m.until LIMIT ?2);

-- name: Forecast
-- Counts the rows that DeleteRows, DeleteMarks, DeleteSteps and DeleteSagas would delete. ?1 is the last published row. ?2 is the retention of
-- rows, ?3 of marks, ?4 of steps, ?5 of sagas.
SELECT (SELECT count(*) FROM skald_outbox WHERE seq <= ?1 AND stored_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?2)),
	(SELECT count(*) FROM skald_mark WHERE written < CAST(unixepoch('now', 'subsec', ?3) * 1000 AS INTEGER)
		AND (until IS NULL OR until <= CAST(unixepoch('subsec') * 1000 AS INTEGER)))
	+ (SELECT count(*) FROM skald_mark WHERE until <= CAST(unixepoch('subsec') * 1000 AS INTEGER) AND written < CAST(unixepoch('now', 'subsec', ?6) * 1000 AS INTEGER)
		AND written >= CAST(unixepoch('now', 'subsec', ?3) * 1000 AS INTEGER)),
	(SELECT count(*) FROM skald_step AS s LEFT JOIN skald_step_floor AS f ON f.consumer = s.consumer AND f.step = s.step
		WHERE max(s.at, s.begun) < max(CAST(unixepoch('now', 'subsec', ?4) * 1000 AS INTEGER), coalesce(f.at, 0))
			AND s.state <> 2 AND NOT EXISTS (SELECT 1 FROM skald_parked AS p WHERE p.consumer = s.consumer AND p.source = s.source AND p.id = s.id)),
	(SELECT count(*) FROM skald_saga AS s WHERE s.ended_at < CAST(unixepoch('now', 'subsec', ?5) * 1000 AS INTEGER) AND NOT EXISTS (
		SELECT 1 FROM skald_saga AS p WHERE p.ended_at IS NULL AND instr(s.origin, '"parent"') > 0
			AND p.name = CASE WHEN instr(s.origin, '"parent"') > 0 THEN json_extract(s.origin, '$.parent.name') END
			AND p.key = CASE WHEN instr(s.origin, '"parent"') > 0 THEN json_extract(s.origin, '$.parent.key') END
			AND p.id = CASE WHEN instr(s.origin, '"parent"') > 0 THEN json_extract(s.origin, '$.parent.id') END));

-- name: DeleteQuarantine
-- Deletes only messages that were handled after an operator admitted them. The others wait for an operator.
DELETE FROM skald_quarantine WHERE number IN (
	SELECT number FROM skald_quarantine WHERE taken_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?1) LIMIT ?2);

-- name: Looked
UPDATE skald_retention_run SET ran_at = CAST(unixepoch('subsec') * 1000 AS INTEGER), keep = CASE name WHEN 'skald_outbox' THEN ?1 WHEN 'skald_step' THEN ?3 WHEN 'skald_saga' THEN ?4 ELSE ?2 END;

-- name: Own
INSERT INTO skald_lease (name, owner, until) VALUES (?1, ?2, CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?3)
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until
WHERE skald_lease.owner = excluded.owner OR skald_lease.until <= unixepoch('subsec') * 1000;

-- name: Disown
DELETE FROM skald_lease WHERE name = ?1 AND owner = ?2;

-- name: Keeps
SELECT coalesce(max(CASE name WHEN 'skald_outbox' THEN keep END), 0), coalesce(max(CASE name WHEN 'skald_mark' THEN keep END), 0),
	coalesce(max(CASE name WHEN 'skald_step' THEN keep END), 0), coalesce(max(CASE name WHEN 'skald_saga' THEN keep END), 0)
FROM skald_retention_run;

-- name: Emptied
UPDATE skald_retention_run SET removed_at = CAST(unixepoch('subsec') * 1000 AS INTEGER) WHERE name = ?1;

-- name: RaiseStepFloors
-- Raises the floors for the steps that DeleteSteps deletes next in this transaction.
INSERT INTO skald_step_floor (consumer, step, at)
SELECT DISTINCT consumer, step, CAST(unixepoch('now', 'subsec', ?1) * 1000 AS INTEGER) FROM (
	SELECT s.consumer, s.step FROM skald_step AS s
	WHERE s.at < CAST(unixepoch('now', 'subsec', ?1) * 1000 AS INTEGER) AND s.begun < CAST(unixepoch('now', 'subsec', ?1) * 1000 AS INTEGER)
		AND s.state <> 2 AND NOT EXISTS (SELECT 1 FROM skald_parked AS p WHERE p.consumer = s.consumer AND p.source = s.source AND p.id = s.id)
	ORDER BY s.at LIMIT ?2)
WHERE true
ON CONFLICT (consumer, step) DO UPDATE SET at = max(at, excluded.at);

-- name: DeleteSteps
-- Deletes the steps below the floors. It keeps a step if its call is in progress, if its message is parked or dead, or if the begin of its saga
-- is unknown.
DELETE FROM skald_step WHERE (consumer, saga, step, occurrence) IN (
	SELECT s.consumer, s.saga, s.step, s.occurrence FROM skald_step AS s JOIN skald_step_floor AS f ON f.consumer = s.consumer AND f.step = s.step
	WHERE s.at < f.at AND s.begun < f.at
		AND s.state <> 2 AND NOT EXISTS (SELECT 1 FROM skald_parked AS p WHERE p.consumer = s.consumer AND p.source = s.source AND p.id = s.id)
	ORDER BY s.at LIMIT ?1);

-- name: DeleteReservations
-- Deletes reservations that expired a day ago.
DELETE FROM skald_reservation WHERE until < CAST(unixepoch('subsec') * 1000 AS INTEGER) - 86400000;
