// This file examines a database file: its settings, its retention, and the limits at a rate.

package admin

import (
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// doctor examines one file.
type doctor struct {
	run     *sqlexec.DB
	steward *Steward
}

// NewDoctor returns a doctor of the file of run, whose retention is s.
func NewDoctor(run *sqlexec.DB, s *Steward) *doctor { return &doctor{run, s} }
