package store

import "time"

// Checkpoint stores the progress of a consumer in a partition of the broker. A driver stores a checkpoint
// after the effects of the messages before its position, so the checkpoint is never ahead of these effects.
// After a crash the consumer reads some messages again; their marks identify them as repeats.
type Checkpoint struct {
	Partition string
	Origin    string // the topic's identity; positions of another origin are not comparable
	// Position is the first position that is not finished; -1 means not known yet.
	Position int64
	// InFlightEnd limits the messages in progress: no message at this position or later was begun. 0 means
	// not known.
	InFlightEnd int64
	// CrashSuspect is the position after the last message that may have been in progress when a session ended
	// without releasing the partition. A kill from outside looks the same as a crash. Only messages that were
	// in progress at two such ends are suspected.
	CrashSuspect int64
	Session      string // the session that owns the partition; empty after a session released it
	Stamp        string // the ID of the last write; different for each write

	At time.Time // when it was last written; drivers set it on reading
}

// SyncRequest exchanges the state of one process of a consumer with the database, in one call. With only
// Consumer set, SyncConsumer reads and locks nothing.
type SyncRequest struct {
	Consumer string
	// Heartbeat, if not nil, records that the process lives and the types that it handles. With a Heartbeat,
	// SyncResult.Kinds is set.
	Heartbeat *Heartbeat

	// Checkpoints are written with Stamp as their stamp.
	Checkpoints []Checkpoint
	Stamp       string

	// Take makes Session the owner of the partitions of Checkpoints. Work that a crashed session has claimed
	// becomes due immediately. If a partition is new, or has another origin now, it begins with the Position
	// and InFlightEnd of its Checkpoint. Other partitions keep their stored checkpoint. If a sequence of the
	// database would return numbers that are in use, SyncConsumer returns a *MovedError and writes nothing.
	Take    bool
	Session string

	// Server is SyncResult.Server as the caller last read it. Without Take, a checkpoint is stored only if
	// its Stamp is still the stored stamp and the database still runs on Server. If a checkpoint was not
	// stored, SyncResult has it with a Stamp other than the given one. Possible reasons are a database that
	// went back in time, a partition that was rewound, and a partition that another session owns.
	Server string
}

// SyncResult is the result of SyncConsumer.
type SyncResult struct {
	// Server identifies the run of the server, its database and Skald's tables. While it stays the same, no
	// commit has been lost.
	Server string
	// Checkpoints are all checkpoints of the consumer, by Partition. With SyncRequest.Take they have the
	// state before the call, otherwise the state after it.
	Checkpoints []Checkpoint
	// Kinds, if Heartbeat was set, are the types that any process of the consumer had recorded before, by
	// topic and type.
	Kinds []Kind
}

// Rewind makes a consumer read a partition again from an earlier position on.
type Rewind struct {
	Consumer, Partition, Origin string
	Position                    int64
	Stamp                       string // as in Checkpoint
}
