-- name: Savepoint
SAVEPOINT skald_effect;

-- name: Requeue
RELEASE skald_effect;

-- name: Undo
ROLLBACK TO skald_effect;
