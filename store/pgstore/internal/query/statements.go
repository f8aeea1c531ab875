// Package query has the SQL statements about Skald's tables, as calls for package sqlexec. The names of the
// files begin with the table. The .sql files have the statements; functions of this package complete some of
// them.
package query

import (
	"embed"

	"github.com/skald-go/skald/internal/sqlfile"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

//go:embed sql/*.sql
var statements embed.FS

// Statements returns all statements of the package by name, completed, with a placeholder for the schema.
func Statements() (map[string]string, error) {
	raw, err := sqlfile.Load(statements, "sql", sqlexec.Placeholder)
	if err != nil {
		return nil, err
	}
	choices(raw)
	raw["Claim"] = bounded(raw["Claim"])
	inserts(raw)
	pulls(raw)
	outboxLists(raw)
	completeSteps(raw)
	sagaComplete(raw)
	completeRecovery(raw)
	return raw, nil
}
