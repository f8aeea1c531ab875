-- name: TakeStep
-- Takes a step for a message. It does not change a step in a state that the message may not take. It waits for a rival, and always locks the
-- row. "forgotten" is true if there was no row, because retention may have deleted it: the snapshot has a floor above the saga, or it still has
-- the row.
INSERT INTO /*schema*/skald_step AS s (consumer, saga, step, occurrence, state, source, id, begun, outside_key)
VALUES ($1::text, $2::text, $3::text, $4::text, $5::smallint, $6::text, $7::text, $8::timestamptz, $9::text)
ON CONFLICT (consumer, saga, step, occurrence) DO UPDATE SET was = s.state,
	state = CASE WHEN s.state IN (3, 4) THEN EXCLUDED.state ELSE s.state END,
	source = CASE WHEN s.state IN (3, 4) THEN EXCLUDED.source ELSE s.source END,
	id = CASE WHEN s.state IN (3, 4) THEN EXCLUDED.id ELSE s.id END,
	outside_key = CASE WHEN s.state IN (3, 4) THEN EXCLUDED.outside_key ELSE s.outside_key END,
	begun = greatest(s.begun, EXCLUDED.begun),
	changed_at = CASE WHEN s.state IN (3, 4) THEN EXCLUDED.changed_at ELSE s.changed_at END
RETURNING was, coalesce(source, ''), coalesce(id, ''), coalesce(code, 0), result, coalesce(outside_key, ''), outcome,
	/*forgotten*/;

-- name: UndoStep
-- Undoes a step for a message. A done step becomes undone, a step with a call in progress does not change, and a step in any other state becomes
-- barred.
INSERT INTO /*schema*/skald_step AS s (consumer, saga, step, occurrence, state, by_source, by_id, begun)
VALUES ($1::text, $2::text, $3::text, $4::text, 6, $5::text, $6::text, $7::timestamptz)
ON CONFLICT (consumer, saga, step, occurrence) DO UPDATE SET was = s.state,
	state = CASE s.state WHEN 1 THEN 7 WHEN 7 THEN 7 WHEN 2 THEN 2 ELSE 6 END,
	by_source = CASE WHEN s.state IN (6, 7) THEN s.by_source ELSE EXCLUDED.by_source END,
	by_id = CASE WHEN s.state IN (6, 7) THEN s.by_id ELSE EXCLUDED.by_id END,
	begun = greatest(s.begun, EXCLUDED.begun),
	changed_at = CASE WHEN s.state IN (2, 6, 7) THEN s.changed_at ELSE EXCLUDED.changed_at END
RETURNING was, coalesce(source, ''), coalesce(id, ''), coalesce(code, 0), result, coalesce(outside_key, ''), outcome,
	/*forgotten*/;

-- name: SetStep
-- Stores a new state of a step. It fails unless the present state is allowed; $13 has a bit for each allowed state.
WITH i AS (
	INSERT INTO /*schema*/skald_step AS s (consumer, saga, step, occurrence, state, source, id, begun, code, result, outside_key, outcome)
	SELECT $1::text, $2::text, $3::text, $4::text, $5::smallint, $6::text, $7::text, $8::timestamptz, $9::integer, $10::bytea, $11::text, $12::bytea
	WHERE $13::integer & 1 = 1 OR EXISTS (
		SELECT FROM /*schema*/skald_step WHERE consumer = $1::text AND saga = $2::text AND step = $3::text AND occurrence = $4::text)
	ON CONFLICT (consumer, saga, step, occurrence) DO UPDATE SET state = EXCLUDED.state, source = EXCLUDED.source, id = EXCLUDED.id,
		code = EXCLUDED.code, result = EXCLUDED.result, outside_key = coalesce(EXCLUDED.outside_key, s.outside_key),
		outcome = coalesce(EXCLUDED.outcome, s.outcome), begun = greatest(s.begun, EXCLUDED.begun), changed_at = EXCLUDED.changed_at
	WHERE ($13::integer >> s.state) & 1 = 1 AND (s.state IN (3, 4) OR s.source = EXCLUDED.source AND s.id = EXCLUDED.id)
	RETURNING 1
)
SELECT /*schema*/skald_require(EXISTS (SELECT FROM i), 'a step');

-- name: NoteStep
INSERT INTO /*schema*/skald_step AS s (consumer, saga, step, occurrence, state, source, id, begun)
VALUES ($1::text, $2::text, $3::text, $4::text, $5::smallint, $6::text, $7::text, $8::timestamptz)
ON CONFLICT (consumer, saga, step, occurrence) DO UPDATE SET
	state = CASE WHEN s.state IN (3, 4) THEN EXCLUDED.state ELSE s.state END,
	source = CASE WHEN s.state IN (3, 4) OR s.source IS NULL THEN EXCLUDED.source ELSE s.source END,
	id = CASE WHEN s.state IN (3, 4) OR s.id IS NULL THEN EXCLUDED.id ELSE s.id END,
	begun = greatest(s.begun, EXCLUDED.begun),
	changed_at = CASE WHEN s.state IN (3, 4) THEN EXCLUDED.changed_at ELSE s.changed_at END;
