package broker

import (
	"context"

	"github.com/skald-go/skald"
)

// Examiner reports settings of the broker that break Skald's guarantees.
type Examiner interface {
	// Examine checks the broker and the topics that exist, and changes nothing. If the right to inspect
	// something is missing, it returns a finding about this. An error is an outage.
	Examine(ctx context.Context, topics ...string) ([]skald.Finding, error)
}
