// This file repairs an outbox after a restore, a copy or a switch-over, and moves sequences past the
// numbers in use.

package query

import (
	"strings"

	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// completeRecovery derives statements that combine others.
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
