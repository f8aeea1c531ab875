package store

import "time"

// Rename moves all rows of the consumer Old to the consumer New.
type Rename struct {
	Old, New string
	// Quiet is the minimum time since the last heartbeat of any process of either consumer.
	Quiet time.Duration
	// Audit is stored with the rename. If Audit is nil, Rename only counts and changes nothing.
	Audit *Audit
}

// ConsumerRows counts the rows of a consumer.
type ConsumerRows struct {
	Marks       int64 // each with its answer
	Positions   int64 // checkpoints of the broker's partitions
	Controls    int64 // instructions of operators, as in Control
	Parked      int64
	Dead        int64
	Quarantined int64
	Steps       int64
	Floors      int64 // times up to which retention deleted its marks or steps
	Types       int64 // types that its processes handle
	// LastHeartbeat is the time since the last heartbeat of one of its processes; -1 means never. If a
	// session owns a partition, the last write of the checkpoint also counts as a heartbeat.
	LastHeartbeat time.Duration
}

// Renamed is the result of a Rename.
type Renamed struct {
	Old, New ConsumerRows // before the rename
	Done     bool
}
