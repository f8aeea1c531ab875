// Package kept is the messages that a consumer keeps: parked ones, dead ones, those in quarantine. Those of
// one key go in their order: whoever handles one of them locks the key.
package kept

import (
	"embed"
	"strings"

	"github.com/skald-go/skald/internal/sqlfile"
	"github.com/skald-go/skald/store/pgstore/internal/outbox"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

//go:embed sql/*.sql
var statements embed.FS

// Statements are the statements about kept messages, with a placeholder for the schema.
func Statements() (map[string]string, error) {
	raw, err := sqlfile.Load(statements, "sql", sqlexec.Placeholder)
	if err == nil {
		choices(raw)
		raw["Claim"] = outbox.Bounded(raw["Claim"])
	}
	return raw, err
}

// ofKey is what is kept, for who looks for a key: of two indexes, which have a part of it each.
const ofKey = `(SELECT * FROM /*schema*/skald_parked WHERE blocks_key
	UNION ALL SELECT * FROM /*schema*/skald_parked WHERE NOT blocks_key AND bytes >= 0) AS k`

// choices makes the forms of the statements that list what is kept.
func choices(raw map[string]string) {
	for _, name := range []string{"Parked", "ParkedEnd"} {
		raw[name+"OfKey"] = strings.ReplaceAll(raw[name], "/*from*/", ofKey)
		raw[name] = strings.ReplaceAll(raw[name], "/*from*/", sqlexec.Placeholder+"skald_parked")
	}
}

// Kept is the messages that are kept in one database.
type Kept struct{ pg *sqlexec.DB }

// New is what is kept in pg.
func New(pg *sqlexec.DB) *Kept { return &Kept{pg} }
