-- name: TakeStep
-- Takes a step for a message. It does not change a step in a state that the message may not take.
INSERT INTO skald_step (consumer, saga, step, occurrence, state, source, id, begun, outside_key) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (consumer, saga, step, occurrence) DO UPDATE SET was = state,
	state = CASE WHEN state IN (3, 4) THEN excluded.state ELSE state END,
	source = CASE WHEN state IN (3, 4) THEN excluded.source ELSE source END,
	id = CASE WHEN state IN (3, 4) THEN excluded.id ELSE id END,
	outside_key = CASE WHEN state IN (3, 4) THEN excluded.outside_key ELSE outside_key END,
	begun = max(coalesce(begun, excluded.begun), coalesce(excluded.begun, begun)),
	changed_at = CASE WHEN state IN (3, 4) THEN excluded.changed_at ELSE changed_at END
RETURNING was, coalesce(source, ''), coalesce(id, ''), coalesce(code, 0), result, coalesce(outside_key, ''), outcome;

-- name: UndoStep
-- Undoes a step for a message. A done step becomes undone, a step with a call in progress does not change, and a step in any other state becomes
-- barred.
INSERT INTO skald_step (consumer, saga, step, occurrence, state, by_source, by_id, begun) VALUES (?1, ?2, ?3, ?4, 6, ?5, ?6, ?7)
ON CONFLICT (consumer, saga, step, occurrence) DO UPDATE SET was = state,
	state = CASE state WHEN 1 THEN 7 WHEN 7 THEN 7 WHEN 2 THEN 2 ELSE 6 END,
	by_source = CASE WHEN state IN (6, 7) THEN by_source ELSE excluded.by_source END,
	by_id = CASE WHEN state IN (6, 7) THEN by_id ELSE excluded.by_id END,
	begun = max(coalesce(begun, excluded.begun), coalesce(excluded.begun, begun)),
	changed_at = CASE WHEN state IN (2, 6, 7) THEN changed_at ELSE excluded.changed_at END
RETURNING was, coalesce(source, ''), coalesce(id, ''), coalesce(code, 0), result, coalesce(outside_key, ''), outcome;

-- name: ForgottenStep
-- Reports, for a step without a row, whether retention may have deleted the step. An unknown begin of the saga counts as the earliest time.
SELECT EXISTS (SELECT 1 FROM skald_step_floor WHERE consumer = ?1 AND step = ?2 AND at > coalesce(?3, -62135596800000));

-- name: SetStep
-- Stores a new state of a step, if the present state is allowed. ?13 has a bit for each allowed state.
INSERT INTO skald_step (consumer, saga, step, occurrence, state, source, id, begun, code, result, outside_key, outcome)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12
WHERE ?13 & 1 = 1 OR EXISTS (SELECT 1 FROM skald_step WHERE consumer = ?1 AND saga = ?2 AND step = ?3 AND occurrence = ?4)
ON CONFLICT (consumer, saga, step, occurrence) DO UPDATE SET state = excluded.state, source = excluded.source, id = excluded.id,
	code = excluded.code, result = excluded.result, outside_key = coalesce(excluded.outside_key, outside_key),
	outcome = coalesce(excluded.outcome, outcome), begun = max(coalesce(begun, excluded.begun), coalesce(excluded.begun, begun)),
	changed_at = excluded.changed_at
WHERE (?13 >> state) & 1 = 1 AND (state IN (3, 4) OR source = excluded.source AND id = excluded.id);

-- name: NoteStep
INSERT INTO skald_step (consumer, saga, step, occurrence, state, source, id, begun) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT (consumer, saga, step, occurrence) DO UPDATE SET
	state = CASE WHEN state IN (3, 4) THEN excluded.state ELSE state END,
	source = CASE WHEN state IN (3, 4) OR source IS NULL THEN excluded.source ELSE source END,
	id = CASE WHEN state IN (3, 4) OR id IS NULL THEN excluded.id ELSE id END,
	begun = max(coalesce(begun, excluded.begun), coalesce(excluded.begun, begun)),
	changed_at = CASE WHEN state IN (3, 4) THEN excluded.changed_at ELSE changed_at END;
