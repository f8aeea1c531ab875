package store

import "time"

// A Checkpoint is how far a consumer has come in a partition of the broker. It is stored after the effects of
// what is before it, so it is never ahead of them. After a crash a little is read again, and the marks drop
// it.
type Checkpoint struct {
	Partition string // the partition's name
	Origin    string // the topic's identity: positions of another one mean nothing
	// Position is the first that is not finished; -1: not known yet.
	Position int64
	// Reach is the in-flight bound: nothing at this position or after it was begun; 0: not known.
	InFlightEnd int64
	// Suspect is the position after the last that may have been in hand when a session ended without leaving
	// the partition. A kill from outside looks the same: what was in hand twice is suspected, and nothing
	// else.
	CrashSuspect int64
	Session      string // the session that has the partition; "": it was left in peace
	Stamp        string // the name of the last write; no two are equal

	At time.Time // of the last write. Only read
}

// An Attend is what a process of a consumer tells the database, and asks of it, in one call. With a Consumer
// alone it only reads, and locks nothing.
type Attend struct {
	Consumer string
	// Beat is written if it is not nil: the process lives, and handles these types. Attended.Kinds answers
	// it.
	Beat *Beat

	// Checkpoints are written under the name Note.
	Checkpoints []Checkpoint
	Stamp       string

	// Take gives the partitions of Checkpoints to Session, from now on. Work that a crashed session has
	// claimed is due at once. A partition that is new, or has another origin now, begins with the Position
	// and Reach of its Checkpoint; of the others the stored ones stay. Where the database gives out numbers
	// that are taken it is a *MovedError, and nothing is written.
	Take    bool
	Session string

	// Server is the server that the caller knows, from Attended. Without Take, each of Checkpoints is stored
	// if its Note is still the stored one and the database is still on Server. Otherwise it is not, and its
	// stored Note is not the given one: the database went back in time, the partition was rewound, or another
	// session has it.
	Server string
}

// Attended answers an Attend.
type Attended struct {
	// Server names the run of the server, the database on it and the tables in that. While it stays the same,
	// what was committed stays.
	Server string
	// Checkpoints are all of the consumer, by Partition: with Attend.Take as they stood before, else after
	// the write.
	Checkpoints []Checkpoint
	// Kinds, if there was a Beat, are all types that any process of the consumer had noted before, by topic
	// and type.
	Kinds []Kind
}

// Rewind makes a consumer read a partition again from an earlier position on.
type Rewind struct {
	Consumer, Partition, Origin string
	Position                    int64
	Stamp                       string // as in Checkpoint
}
