// This file settles an outbox after a restore, a copy or a switch-over, and has the sequences go on
// after the numbers that are there.

package query

import (
	"strings"

	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// completeRecovery derives the statements that combine others.
func completeRecovery(raw map[string]string) {
	behind, arrivals := strings.TrimSuffix(raw["After"], ";"), strings.TrimSuffix(raw["ArrivalAfter"], ";")
	raw["GuardNumbers"] = "SELECT " + sqlexec.Placeholder + "skald_require((" + behind +
		") = '', 'the numbers')"
	raw["GuardBehind"] = "SELECT " + sqlexec.Placeholder + "skald_require((" +
		behind + ") <> '' OR (" + arrivals + ") <> '', 'the recovery')"
	raw["SettlePage"] = bucketed(raw["SettlePage"])
}

// A Recovery is that of one database.
type Recovery struct {
	pg   *sqlexec.DB
	wake func() // relays in this process
}

// NewRecovery is the recovery of pg, which wakes relays when it is done.
func NewRecovery(pg *sqlexec.DB, wake func()) *Recovery { return &Recovery{pg, wake} }
