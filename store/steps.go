package store

import "time"

// StepQuery selects steps. Zero fields select all.
type StepQuery struct {
	Consumer, Saga string
	// Consumers and Sagas select steps of several consumers and sagas, in one query. Give both or none.
	Consumers, Sagas []string
	OutsideKey       string    // of the last external call
	State            StepState // as in StepRecord; see Dropped
	Dropped          bool      // with StepDead: only steps with a dropped dead letter
	Limit            int       // default 1,000
}

// StepRecord is a step and its history.
type StepRecord struct {
	Step // Identity is that of the message that took the step or waits to take it; From is not set
	// By is the message that undid or barred the step; zero if no message did.
	By Identity
	// Dropped reports that State is StepDead and the dead letter was dropped. If Dropped is false, a dead
	// letter still exists.
	Dropped bool
	At      time.Time // when the step was first stored
	Changed time.Time
}
