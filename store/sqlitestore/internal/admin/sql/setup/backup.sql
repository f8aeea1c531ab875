-- name: Backup
VACUUM INTO ?1;

-- name: QuickCheck
PRAGMA quick_check;
