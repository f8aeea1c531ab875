// Package outbox is the table of messages to be published, with its shards: what writers add to it, and what
// relays read of it and note about it.
package outbox

import (
	"embed"

	"github.com/skald-go/skald/internal/sqlfile"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

//go:embed sql/*.sql
var statements embed.FS

// Statements are the statements of an Outbox, by name.
func Statements() (map[string]string, error) { return sqlfile.Load(statements, "sql", "") }

// An Outbox is the table in one file.
type Outbox struct{ run *sqlexec.DB }

// New is the outbox in the file of run.
func New(run *sqlexec.DB) *Outbox { return &Outbox{run} }
