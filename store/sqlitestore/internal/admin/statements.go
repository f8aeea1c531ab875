package admin

import (
	"embed"

	"github.com/skald-go/skald/internal/sqlfile"
)

//go:embed sql
var statements embed.FS

// Statements returns the statements of the steward and the doctor, by name. The store prepares these
// statements.
func Statements() (map[string]string, error) { return sqlfile.Load(statements, "sql", "") }

// setup returns the statements that migrate and copy a file, by name. The store does not prepare these
// statements, because they must run before the tables exist.
func setup() (map[string]string, error) { return sqlfile.Load(statements, "sql/setup", "") }
