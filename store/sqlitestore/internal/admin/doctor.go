// This file examines a file: its settings, its retention, and what a rate of messages takes.

package admin

import (
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// A doctor examines one file.
type doctor struct {
	run     *sqlexec.DB
	steward *Steward
}

// NewDoctor is the doctor of the file of run, whose retention is s.
func NewDoctor(run *sqlexec.DB, s *Steward) *doctor { return &doctor{run, s} }
