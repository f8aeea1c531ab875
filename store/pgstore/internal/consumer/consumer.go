// Package consumer is what a database knows of consumers beside their messages: how far they have come, who
// reads which partition, and which types they handle. It also gives what is kept of one to another name.
package consumer

import (
	"embed"

	"github.com/skald-go/skald/internal/sqlfile"
	"github.com/skald-go/skald/store/pgstore/internal/recovery"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

//go:embed sql/*.sql
var statements embed.FS

// Statements are the statements about consumers, with a placeholder for the schema.
func Statements() (map[string]string, error) {
	return sqlfile.Load(statements, "sql", sqlexec.Placeholder)
}

// Consumers are those of one database.
type Consumers struct {
	pg       *sqlexec.DB
	recovery *recovery.Recovery // tells why a partition cannot be taken
}

// New are the consumers in pg.
func New(pg *sqlexec.DB, r *recovery.Recovery) *Consumers { return &Consumers{pg, r} }
