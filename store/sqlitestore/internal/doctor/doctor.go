// Package doctor examines a file: its settings, its retention, and what a rate of messages takes.
package doctor

import (
	"embed"

	"github.com/skald-go/skald/internal/sqlfile"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
	"github.com/skald-go/skald/store/sqlitestore/internal/steward"
)

//go:embed sql/*.sql
var statements embed.FS

// Statements are the statements of a Doctor, by name.
func Statements() (map[string]string, error) { return sqlfile.Load(statements, "sql", "") }

// A Doctor examines one file.
type Doctor struct {
	run     *sqlexec.DB
	steward *steward.Steward
}

// New is the doctor of the file of run, whose retention is s.
func New(run *sqlexec.DB, s *steward.Steward) *Doctor { return &Doctor{run, s} }
