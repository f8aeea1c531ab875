package operate

import (
	"context"

	"github.com/skald-go/skald/operate/internal/kept"
)

// A Quarantine is what the verbs on quarantine ask of a store.
type Quarantine = kept.Quarantine

// A QuarantineGroup is messages in quarantine of one consumer, for one reason: its names in JSON are stable.
type QuarantineGroup = kept.QuarantineGroup

// QuarantineGroups counts what is in quarantine.
func QuarantineGroups(ctx context.Context, db Quarantine) ([]QuarantineGroup, error) {
	return kept.QuarantineGroups(ctx, db)
}

// AdmitsAtOnce are admitted in one transaction.
const AdmitsAtOnce = kept.AdmitsAtOnce

// An Admission chooses messages in quarantine. Zero fields choose all.
type Admission = kept.Admission

// An AdmitReport tells what was admitted.
type AdmitReport = kept.AdmitReport

// Admit has messages in quarantine taken by their consumers, each once, within some seconds. One that is too
// old may have been taken before it was forgotten; one in conflict is taken beside the one that had its
// identity. With a *PartlyError the report is valid, too.
func Admit(ctx context.Context, db Quarantine, a Admission, o Order) (r AdmitReport, err error) {
	return kept.Admit(ctx, db, a, o)
}
