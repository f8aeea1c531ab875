-- name: ForgetRelays
DELETE FROM skald_relay WHERE until <= CAST(unixepoch('subsec') * 1000 AS INTEGER) AND owner <> ?1;

-- name: KeepRelay
-- Registers a relay or extends its lease. The relay is a standby if other relays own or will own all shards. Relays that yield do not count
-- while another relay reaches its broker.
INSERT INTO skald_relay (owner, session, until, standby, broker_away_at, yields)
SELECT ?1, ?2, now + CASE WHEN w.standby OR ?6 THEN ?4 ELSE ?3 END, w.standby, CASE WHEN ?5 > 0 THEN now - ?5 END, ?6
FROM (SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) AS now,
	(SELECT count(*) FROM skald_relay WHERE NOT standby AND owner <> ?1 AND NOT (yields
		AND (?5 = 0 OR EXISTS (SELECT 1 FROM skald_relay AS a WHERE a.owner <> ?1 AND a.broker_away_at IS NULL)))) >= (SELECT count(*) FROM skald_shard)
	AND NOT EXISTS (SELECT 1 FROM skald_shard WHERE owner = ?1) AS standby) AS w
WHERE true
ON CONFLICT (owner) DO UPDATE SET session = excluded.session, until = excluded.until, standby = excluded.standby,
	broker_away_at = excluded.broker_away_at, yields = excluded.yields;

-- name: LeaveRelay
DELETE FROM skald_relay WHERE owner = ?1 AND session = ?2;

-- name: Relays
-- Returns the live relays, and whether each may own shards.
SELECT owner, NOT standby AND NOT (yields AND EXISTS (SELECT 1 FROM skald_relay WHERE broker_away_at IS NULL)) FROM skald_relay ORDER BY owner;

-- name: LeaveShards
UPDATE skald_shard SET owner = NULL, session = NULL WHERE owner = ?1 AND session = ?2;

-- name: FreeShard
UPDATE skald_shard SET owner = NULL, session = NULL WHERE id = ?1 AND owner = ?2;

-- name: Shards
SELECT id, first_bucket, last_bucket, epoch, token, base, tip, seq, incarnation, coalesce(owner, ''), coalesce(session, '')
FROM skald_shard ORDER BY id;

-- name: TakeShard
UPDATE skald_shard SET owner = ?2, session = ?3, token = ?4, epoch = epoch + 1, changed_at = CAST(unixepoch('subsec') * 1000 AS INTEGER) WHERE id = ?1 RETURNING epoch;

-- name: KeepProgress
-- Stores the progress of a shard. It changes no row if the shard has another owner or epoch.
UPDATE skald_shard SET base = coalesce(?4, base), tip = coalesce(?5, tip), seq = coalesce(?6, seq), incarnation = coalesce(?7, incarnation),
	changed_at = CAST(unixepoch('subsec') * 1000 AS INTEGER)
WHERE id = ?1 AND epoch = ?2 AND token = ?3 AND owner IS NOT NULL;
