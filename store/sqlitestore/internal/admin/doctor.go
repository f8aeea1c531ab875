// The files doctor*.go examine a database file: its settings, its retention, and its limits. The findings are
// for skald doctor.

package admin

import (
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// doctor examines one file.
type doctor struct {
	run     *sqlexec.DB
	steward *Steward
}

// NewDoctor returns a doctor of the file of db. It reads the retention from s.
func NewDoctor(db *sqlexec.DB, s *Steward) *doctor { return &doctor{db, s} }
