package store

import "time"

// WrittenQuery selects published and unpublished rows of the outbox that match any of its fields. The store
// examines the newest WrittenScan rows. The query needs the rights of a relay or a reader.
type WrittenQuery struct {
	About        string // the id, correlation, cause or subject
	Correlations []string
	Keys         [][]byte
	Limit        int // default 1,000
}

// WrittenScan limits the rows that List.Written examines, the newest first.
const WrittenScan = 10_000

// WrittenRow is a row of the outbox, without its payload.
type WrittenRow struct {
	Seq int64
	Identity
	Topic, Type   string
	CorrelationID string
	Written       time.Time
}

// FinishedQuery selects messages that consumers finished, by their marks.
type FinishedQuery struct {
	Consumers []string
	IDs       []Identity
	Limit     int // default 1,000
}

// Finished is a message that a consumer finished, by its mark.
type Finished struct {
	Consumer string
	Identity
	Outcome Outcome // Done, Rejected or Barred
	Reason  string  // of a rejection
	Code    int32   // of the stored answer
	// At is the time at which the consumer stored the mark, or the time in the message's ID if that is later.
	At time.Time
}
