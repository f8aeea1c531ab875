package store

import "time"

// A Rename gives all that a database keeps of the consumer Old to the consumer New.
type Rename struct {
	Old, New string
	// Quiet is how long no process of either may have given a sign of session.
	Quiet time.Duration
	// Audit is noted with it; nil: it is only looked, and nothing changes.
	Audit *Audit
}

// Belongings are how many rows a database keeps of a consumer.
type Belongings struct {
	Marks       int64 // each with its answer
	Positions   int64 // of partitions of the broker
	Controls    int64 // what operators told its processes
	Parked      int64
	Dead        int64
	Quarantined int64
	Steps       int64
	Floors      int64 // of its marks and steps
	Types       int64 // that its processes handle
	// Heard is how long ago one of its processes gave a sign of session, or stored how far a partition has
	// come that it has not left; -1: never.
	Heard time.Duration
}

// Renamed answers a Rename.
type Renamed struct {
	Old, New Belongings // before
	Done     bool
}
