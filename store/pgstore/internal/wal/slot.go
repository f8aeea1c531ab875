// Package wal uses logical replication slots of PostgreSQL for relays. A Reader notifies a relay of commits,
// so that the relay does not poll. A Follower is for an outbox that another program reads from a slot: it
// moves the positions of the outbox to the position that this program has confirmed.
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
