-- name: LockEntity
-- Only raises the version, because the transaction has the only write lock.
INSERT INTO skald_entity (space, key, version) VALUES (?1, ?2, 1)
ON CONFLICT (space, key) DO UPDATE SET version = version + 1
RETURNING version;

-- name: Lend
INSERT INTO skald_commit_guard (hold) VALUES (-1);

-- name: StillLent
SELECT 1 FROM skald_commit_guard WHERE id = ?1;

-- name: MessageSavepoint
SAVEPOINT skald_message;

-- name: ReleaseMessageSavepoint
RELEASE skald_message;

-- name: UndoMessageSavepoint
ROLLBACK TO skald_message;

-- name: TakeBack
DELETE FROM skald_commit_guard WHERE id = ?1;
