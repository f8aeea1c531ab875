-- name: LockEntity
INSERT INTO /*schema*/skald_entity AS e (space, key, version) VALUES ($1::text, $2::bytea, 1)
ON CONFLICT (space, key) DO UPDATE SET version = e.version + 1
RETURNING version;

-- name: GuardEntity
WITH l AS (
	INSERT INTO /*schema*/skald_entity AS e (space, key, version) VALUES ($1::text, $2::bytea, 1)
	ON CONFLICT (space, key) DO UPDATE SET version = e.version + 1
	RETURNING version
)
SELECT /*schema*/skald_require(version = $3::bigint, 'an entity') FROM l;

-- name: CheckEntity
-- Checks the version of an entity that this transaction has already locked.
SELECT /*schema*/skald_require(EXISTS (
	SELECT FROM /*schema*/skald_entity WHERE space = $1::text AND key = $2::bytea AND version = $3::bigint), 'an entity');

-- name: LockEntities
-- Does as LockEntity for many entities, in the order of the arrays.
INSERT INTO /*schema*/skald_entity AS e (space, key, version)
SELECT i.space, i.key, 1 FROM unnest($1::text[], $2::bytea[]) AS i(space, key)
ON CONFLICT (space, key) DO UPDATE SET version = e.version + 1
RETURNING space, key, version;
