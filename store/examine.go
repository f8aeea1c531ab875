package store

import (
	"context"
	"time"

	"github.com/skald-go/skald"
)

// An Examiner is a Store that can tell what of its database stands against the promises, or against the load.
type Examiner interface {
	// Examine looks, and changes nothing. What it may not look at it says in a finding; an error is an outage.
	Examine(ctx context.Context, e Exam) ([]skald.Finding, error)
}

// An Exam says what a database is to be ready for.
type Exam struct {
	Handle      time.Duration // how long a handler may take. Default 60 s
	Connections int           // how many connections all processes want together; 0: it is not asked
	Rate        float64       // messages a second; 0: it is not asked
}
