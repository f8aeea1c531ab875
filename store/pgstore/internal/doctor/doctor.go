// Package doctor examines a database and its server: settings, clock, connections, retention, load, and what
// a connector of Debezium's would not carry.
package doctor

import (
	"embed"

	"github.com/skald-go/skald/internal/sqlfile"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
	"github.com/skald-go/skald/store/pgstore/internal/steward"
)

//go:embed sql/*.sql
var statements embed.FS

// Statements are the statements of a Doctor, with a placeholder for the schema.
func Statements() (map[string]string, error) {
	return sqlfile.Load(statements, "sql", sqlexec.Placeholder)
}

// A Doctor examines one database.
type Doctor struct {
	pg      *sqlexec.DB
	steward *steward.Steward
}

// New is the doctor of pg, whose retention is s.
func New(pg *sqlexec.DB, s *steward.Steward) *Doctor { return &Doctor{pg, s} }
