package broker

import (
	"context"

	"github.com/skald-go/skald"
)

// Examiner reports settings of the broker that break Skald's guarantees.
type Examiner interface {
	// Examine checks the broker and those topics that exist, and changes nothing. A missing right to
	// inspect something is a finding; an error is an outage.
	Examine(ctx context.Context, topics ...string) ([]skald.Finding, error)
}
