-- name: Savepoint
SAVEPOINT skald_effect;

-- name: ReleaseSavepoint
RELEASE skald_effect;

-- name: Undo
ROLLBACK TO skald_effect;
