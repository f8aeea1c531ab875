// The files doctor*.go examine a database and its server: settings, clock, connections, retention, load, and
// rows that a Debezium connector would lose. The findings are for skald doctor.

package admin

import (
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// doctor examines one database.
type doctor struct {
	pg      *sqlexec.DB
	steward *Steward
}

// NewDoctor returns a doctor of pg. It reads the retention from s.
func NewDoctor(pg *sqlexec.DB, s *Steward) *doctor { return &doctor{pg, s} }
