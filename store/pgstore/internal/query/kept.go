// This file has the messages that the store keeps for consumers: parked ones, dead letters and the
// quarantine. Messages of one key stay in order, because each transaction that handles one locks the key.

package query

import (
	"strings"

	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// ofKey selects the messages for a search by key. Two partial indexes cover them.
const ofKey = `(SELECT * FROM /*schema*/skald_parked WHERE blocks_key
	UNION ALL SELECT * FROM /*schema*/skald_parked WHERE NOT blocks_key AND bytes >= 0) AS k`

// choices derives the variants of the statements that list messages.
func choices(raw map[string]string) {
	for _, name := range []string{"Parked", "ParkedEnd"} {
		raw[name+"OfKey"] = strings.ReplaceAll(raw[name], "/*from*/", ofKey)
		raw[name] = strings.ReplaceAll(raw[name], "/*from*/", sqlexec.Placeholder+"skald_parked")
	}
}

// Parked has the parked messages, dead letters and quarantine of one database.
type Parked struct{ pg *sqlexec.DB }

// NewParked returns the kept messages of pg.
func NewParked(pg *sqlexec.DB) *Parked { return &Parked{pg} }
