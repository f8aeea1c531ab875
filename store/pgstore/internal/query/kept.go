// This file is the messages that a consumer keeps: parked ones, dead ones, those in quarantine. Those of
// one key go in their order: whoever handles one of them locks the key.

package query

import (
	"strings"

	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

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

// NewKept is what is kept in pg.
func NewKept(pg *sqlexec.DB) *Kept { return &Kept{pg} }
