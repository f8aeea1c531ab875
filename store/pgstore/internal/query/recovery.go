// The files recovery*.go repair an outbox after a restore, a copy or a switch-over of the database. They also
// move sequences past the numbers in use.

package query

import (
	"strings"

	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// completeRecovery adds the statements that combine other statements.
func completeRecovery(raw map[string]string) {
	behind, arrivals := strings.TrimSuffix(raw["After"], ";"), strings.TrimSuffix(raw["ArrivalAfter"], ";")
	raw["GuardNumbers"] = "SELECT " + sqlexec.Placeholder + "skald_require((" + behind +
		") = '', 'the numbers')"
	raw["GuardBehind"] = "SELECT " + sqlexec.Placeholder + "skald_require((" +
		behind + ") <> '' OR (" + arrivals + ") <> '', 'the recovery')"
	raw["SettlePage"] = bucketed(raw["SettlePage"])
}

// Recovery repairs one database.
type Recovery struct {
	pg   *sqlexec.DB
	wake func() // wakes the relays in this process
}

// NewRecovery returns the recovery of pg. Each finished recovery calls wake.
func NewRecovery(pg *sqlexec.DB, wake func()) *Recovery { return &Recovery{pg, wake} }
