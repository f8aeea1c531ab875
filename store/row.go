package store

import (
	"time"

	"github.com/skald-go/skald"
)

// Window is the part of the outbox between two ticks: the rows that were committed after Base and before Tip.
type Window struct {
	Base, Tip string
	After     int64 // only rows with a larger sequence number
	// Buckets are ranges of buckets, both ends included; nil selects all.
	Buckets [][2]int
}

// Page is some rows of a window.
type Page struct {
	Rows []Row
	Done bool // the window has no further rows
}

// Limits of one read in bytes.
const (
	PageBytes = 4 << 20 // of a page of Pull, Deferred or Claim; a page with a single row may be larger
	RowBytes  = 1 << 20 // of a row; rows within the limits of the outbox are smaller
)

// Row is a message in the outbox.
type Row struct {
	skald.Message
	Seq    int64
	Bucket int // 0 … Buckets-1
	// Large replaces the content of a row that is too large to read. Nil means that the message is complete.
	Large *Large
	// Fault is the reason why the row cannot be decoded; empty if it can. With a Fault, Time, Headers and
	// Data may be missing. A relay that defers the row copies it unchanged, so an operator can repair the
	// copy.
	Fault string
}

// Large describes a row of more than RowBytes. The message of the row has only the ID, the time, the
// beginning of the topic, and the key if the key is within its limit. No relay publishes the message, because
// it has no type, which violates a limit.
type Large struct {
	Bytes  int64
	SHA256 string // of the data, in hexadecimal; empty if the database cannot compute it
}

// DeferredRow is a row that the broker refused, or that waits for an earlier row of its key.
type DeferredRow struct {
	Row
	Attempts int           // number of refusals; 0 means that the row only waits
	Why      string        // reason of the last refusal, cut to 1 KiB
	Due      time.Duration // time until the next attempt, by the store's clock; only written
}

// DeferredKey is a key with deferred rows.
type DeferredKey struct {
	Topic string
	Key   []byte
	Shard int
}
