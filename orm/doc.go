// Package orm shows the outbox in a transaction of GORM, sqlx, bun and sqlc, and holds what Skald promises over lib/pq:
// others' code, which no user of Skald is to build, and so a module of its own.
package orm
