package store

import "time"

// Checkpoint is the stored progress of a consumer in a partition of the broker. A consumer stores a
// checkpoint after the effects of the messages before its Position, so the checkpoint is never ahead of these
// effects. After a crash the consumer reads some messages again; their marks show that they are duplicates.
type Checkpoint struct {
	Partition string
	Origin    string // the identity of the topic; a Position is comparable only within one Origin
	// Position is the first position that is not finished; -1 means not known yet.
	Position int64
	// InFlightEnd limits the messages in progress: the consumer began no message at this position or later. 0
	// means not known.
	InFlightEnd int64
	// CrashSuspect is the position after the last message that may have been in progress when a session ended
	// without releasing the partition. A message may cause the crash of its process, but a kill from outside
	// looks the same. So the consumer suspects only messages that were in progress at two such ends.
	CrashSuspect int64
	Session      string // the session that owns the partition; empty after the session released it
	Stamp        string // the ID of the last write; different for each write

	At time.Time // time of the last write; drivers set it on reading
}

// SyncRequest has the state that one process of a consumer writes to the database. If only Consumer is set,
// SyncConsumer only reads and locks nothing.
type SyncRequest struct {
	Consumer string
	// Heartbeat, if not nil, records that the process is alive, and the types that it handles. Then
	// SyncConsumer also returns SyncResult.Kinds.
	Heartbeat *Heartbeat

	// Checkpoints are the checkpoints to write, with Stamp as their Stamp.
	Checkpoints []Checkpoint
	Stamp       string

	// Take makes Session the owner of the partitions of Checkpoints. Work that a crashed session has claimed
	// becomes due immediately. If a partition is new, or has another Origin now, it begins with the Position
	// and InFlightEnd of its Checkpoint. Other partitions keep their stored checkpoint. If a sequence of the
	// database would return used numbers, SyncConsumer returns a *MovedError and writes nothing.
	Take    bool
	Session string

	// Server is SyncResult.Server as the caller last read it. Without Take, SyncConsumer stores a checkpoint
	// only if its Stamp is still the stored one and the database still runs on Server. If it did not store a
	// checkpoint, SyncResult has that checkpoint with a Stamp other than the given one. Possible reasons are
	// a restored database, a partition that was rewound, and a partition that another session owns.
	Server string
}

// SyncResult is the result of SyncConsumer.
type SyncResult struct {
	// Server identifies the run of the server, its database and Skald's tables. While Server does not change,
	// no commit was lost.
	Server string
	// Checkpoints has all checkpoints of the consumer, by Partition. With SyncRequest.Take they have the
	// state before the call, otherwise the state after it.
	Checkpoints []Checkpoint
	// Kinds, if Heartbeat was set, has the types that any process of the consumer recorded before, by topic
	// and type.
	Kinds []Kind
}

// Rewind makes a consumer read a partition again from an earlier position.
type Rewind struct {
	Consumer, Partition, Origin string
	Position                    int64
	Stamp                       string // as in Checkpoint
}
