// This file examines a database and its server: settings, clock, connections, retention, load, and what
// a connector of Debezium's would not carry.

package admin

import (
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// A doctor examines one database.
type doctor struct {
	pg      *sqlexec.DB
	steward *Steward
}

// NewDoctor is the doctor of pg, whose retention is s.
func NewDoctor(pg *sqlexec.DB, s *Steward) *doctor { return &doctor{pg, s} }
