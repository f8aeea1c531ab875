// This file is about logical replication slots. A Reader is notified of commits by one. A Follower moves
// the positions of the outbox to the place that another program has confirmed.

package wal

import (
	"embed"

	"github.com/skald-go/skald/internal/sqlfile"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

//go:embed sql/*.sql
var statements embed.FS

// Statements returns the statements about slots, with a placeholder for the schema.
func Statements() (map[string]string, error) {
	return sqlfile.Load(statements, "sql", sqlexec.Placeholder)
}
