// Package recovery settles an outbox after a restore, a copy or a switch-over, and has the sequences go on
// after the numbers that are there.
package recovery

import (
	"embed"
	"strings"

	"github.com/skald-go/skald/internal/sqlfile"
	"github.com/skald-go/skald/store/pgstore/internal/outbox"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

//go:embed sql/*.sql
var statements embed.FS

// Statements are the statements of a Recovery, with a placeholder for the schema.
func Statements() (map[string]string, error) {
	raw, err := sqlfile.Load(statements, "sql", sqlexec.Placeholder)
	if err != nil {
		return nil, err
	}
	behind, arrivals := strings.TrimSuffix(raw["After"], ";"), strings.TrimSuffix(raw["ArrivalAfter"], ";")
	raw["GuardNumbers"] = "SELECT " + sqlexec.Placeholder + "skald_require((" + behind +
		") = '', 'the numbers')"
	raw["GuardBehind"] = "SELECT " + sqlexec.Placeholder + "skald_require((" +
		behind + ") <> '' OR (" + arrivals + ") <> '', 'the recovery')"
	raw["SettlePage"] = outbox.Bucketed(raw["SettlePage"])
	return raw, nil
}

// A Recovery is that of one database.
type Recovery struct {
	pg   *sqlexec.DB
	wake func() // relays in this process
}

// New is the recovery of pg, which wakes relays when it is done.
func New(pg *sqlexec.DB, wake func()) *Recovery { return &Recovery{pg, wake} }
