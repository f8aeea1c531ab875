// The files kept*.go have parked messages, dead letters and the quarantine. Messages of one key stay in
// order, because each transaction that handles a message locks its key.

package query

import (
	"strings"

	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// ofKey is the FROM clause for a search by key. It has two parts, because two partial indexes cover the
// messages.
const ofKey = `(SELECT * FROM /*schema*/skald_parked WHERE blocks_key
	UNION ALL SELECT * FROM /*schema*/skald_parked WHERE NOT blocks_key AND bytes >= 0) AS k`

// choices completes the statements that list messages, and adds their variants for a search by key.
func choices(raw map[string]string) {
	for _, name := range []string{"Parked", "ParkedEnd"} {
		raw[name+"OfKey"] = strings.ReplaceAll(raw[name], "/*from*/", ofKey)
		raw[name] = strings.ReplaceAll(raw[name], "/*from*/", sqlexec.Placeholder+"skald_parked")
	}
}

// Parked has the parked messages, dead letters and quarantine of one database.
type Parked struct{ pg *sqlexec.DB }

// NewParked returns the parked messages of pg.
func NewParked(pg *sqlexec.DB) *Parked { return &Parked{pg} }
