package broker

import (
	"context"

	"github.com/skald-go/skald"
)

// Examiner tells what of its settings stands against the promises.
type Examiner interface {
	// Examine looks at the broker and at those of topics that are there, and changes nothing. What it may not
	// look at it says in a finding; an error is an outage.
	Examine(ctx context.Context, topics ...string) ([]skald.Finding, error)
}
