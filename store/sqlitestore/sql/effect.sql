-- name: Savepoint
SAVEPOINT skald_effect;

-- name: Release
RELEASE skald_effect;

-- name: Undo
ROLLBACK TO skald_effect;
