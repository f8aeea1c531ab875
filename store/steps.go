package store

import "time"

// A StepQuery chooses among steps. Zero fields choose all.
type StepQuery struct {
	Consumer, Saga string
	OutsideKey     string    // of the last outside call
	State          StepState // as StepRecord has it; see Dropped
	Dropped        bool      // with StepDead: only those whose dead letter was dropped
	Limit          int       // default 1,000
}

// A StepRecord is how a step stands, and since when.
type StepRecord struct {
	Step // its Identity is of the message that took the step, or waits to; From is not set
	// By is the message that undid or barred it; zero: none did.
	By Identity
	// Dropped: State is StepDead, and the dead letter was dropped. Else it is there.
	Dropped bool
	At      time.Time // when the step was first heard of
	Changed time.Time
}
