// This file is about logical replication slots: a Reader hears of commits from one, and a Follower moves
// the positions of the outbox to where somebody else has read one.

package wal

import (
	"embed"

	"github.com/skald-go/skald/internal/sqlfile"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

//go:embed sql/*.sql
var statements embed.FS

// Statements are the statements about slots, with a placeholder for the schema.
func Statements() (map[string]string, error) {
	return sqlfile.Load(statements, "sql", sqlexec.Placeholder)
}
