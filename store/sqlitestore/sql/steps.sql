-- name: ListSteps
-- Lists steps. It also reads the parked message of a dead step, because the step keeps its state after an operator drops the dead letter.
SELECT consumer, saga, step, occurrence, state, dropped, source, id, by_source, by_id, code, result, outside_key, outcome, begun, at, changed_at FROM (
	SELECT s.consumer, s.saga, s.step, s.occurrence,
		CASE WHEN s.state NOT IN (3, 4) THEN s.state WHEN p.place IS NOT NULL AND p.dead_at IS NULL THEN 3 ELSE 4 END AS state,
		s.state IN (3, 4) AND p.place IS NULL AS dropped,
		coalesce(s.source, '') AS source, coalesce(s.id, '') AS id, coalesce(s.by_source, '') AS by_source, coalesce(s.by_id, '') AS by_id,
		coalesce(s.code, 0) AS code, s.result, coalesce(s.outside_key, '') AS outside_key, s.outcome, s.begun, s.at, s.changed_at
	FROM skald_step AS s
	LEFT JOIN skald_parked AS p ON p.consumer = s.consumer AND p.source = s.source AND p.id = s.id AND s.state IN (3, 4)
	WHERE (?1 = '' OR s.consumer = ?1) AND (?2 = '' OR s.saga = ?2) AND (?3 = '' OR s.outside_key = ?3)
		AND (NOT ?7 OR s.consumer IN (SELECT value FROM json_each(?8)) AND s.saga IN (SELECT value FROM json_each(?9)))
) AS q WHERE ?4 = 0 OR state = ?4 AND dropped = ?5
ORDER BY consumer, saga, step, occurrence LIMIT ?6;
