-- What several processes need to see to one database, and what whoever is left reports of it.

-- What one process at a time sees to, whose it is, and until when.
CREATE TABLE skald_lease (
	name  TEXT PRIMARY KEY, -- retention
	owner TEXT NOT NULL,
	until INTEGER NOT NULL -- milliseconds since 1970
) STRICT, WITHOUT ROWID;

-- How long the retention keeps what is in a table, as it last said, in milliseconds. NULL: it has not looked since this column is here.
ALTER TABLE skald_maintained ADD COLUMN keep INTEGER;

DROP VIEW skald_maintenance;
CREATE VIEW skald_maintenance AS
SELECT m.name, strftime('%Y-%m-%dT%H:%M:%fZ', m.looked_at / 1000.0, 'unixepoch') AS looked_at,
	unixepoch('subsec') - m.looked_at / 1000.0 AS looked_seconds,
	strftime('%Y-%m-%dT%H:%M:%fZ', m.emptied_at / 1000.0, 'unixepoch') AS emptied_at,
	unixepoch('subsec') - m.emptied_at / 1000.0 AS emptied_seconds,
	o.at AS oldest_at, unixepoch('subsec') - unixepoch(o.at, 'subsec') AS oldest_seconds, m.keep / 1000.0 AS keep_seconds
FROM skald_maintained AS m LEFT JOIN (
	SELECT 'skald_outbox' AS name, (SELECT stored_at FROM skald_outbox ORDER BY seq LIMIT 1) AS at
	UNION ALL
	SELECT 'skald_mark', (SELECT strftime('%Y-%m-%dT%H:%M:%fZ', min(written) / 1000.0, 'unixepoch') FROM skald_mark)
) AS o ON o.name = m.name;

-- What is kept for each consumer because it could not be taken. It reads what is parked, dead or in quarantine, and nothing else.
CREATE VIEW skald_consumers AS
SELECT consumer, sum(parked) AS parked, sum(parked_bytes) AS parked_bytes,
	strftime('%Y-%m-%dT%H:%M:%fZ', min(parked_at), 'unixepoch') AS parked_at, max(coalesce(unixepoch('subsec') - min(parked_at), 0), 0) AS parked_seconds,
	sum(dead) AS dead, min(dead_at) AS dead_at, sum(conflicts) AS conflicts, sum(too_old) AS too_old,
	min(quarantined_at) AS quarantined_at, max(coalesce(unixepoch('subsec') - unixepoch(min(quarantined_at), 'subsec'), 0), 0) AS quarantined_seconds
FROM (
	SELECT consumer, sum(dead_at IS NULL) AS parked, coalesce(sum(CASE WHEN dead_at IS NULL THEN bytes END), 0) AS parked_bytes,
		min(CASE WHEN dead_at IS NULL THEN since END) / 1000.0 AS parked_at, sum(dead_at IS NOT NULL) AS dead, min(dead_at) AS dead_at,
		0 AS conflicts, 0 AS too_old, NULL AS quarantined_at
	FROM skald_parked GROUP BY consumer
	UNION ALL
	SELECT consumer, 0, 0, NULL, 0, NULL, sum(why = -2), sum(why = -1), min(at)
	FROM skald_quarantine WHERE taken_at IS NULL AND admitted_at IS NULL GROUP BY consumer
) AS k GROUP BY consumer;
