-- name: DropDeferred
DELETE FROM skald_deferred WHERE id = ?1 AND attempts > 0;
