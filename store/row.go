package store

import (
	"time"

	"github.com/skald-go/skald"
)

// A Window is the part of the outbox between two ticks.
type Window struct {
	Base, Tip string
	After     int64 // only rows with a larger sequence number
	// Shards, by their buckets, both ends included; nil: all.
	Buckets [][2]int
}

// A Page is some rows of a window.
type Page struct {
	Rows []Row
	Done bool // nothing of the window lies behind them
}

// Bounds of what one call reads, whatever the rows look like.
const (
	PageBytes = 4 << 20 // of a page of Pull, Retry or Claim, unless it has one row only
	RowBytes  = 1 << 20 // of a row: none that keeps the limits of the outbox is larger
)

// A Row is a message in the outbox.
type Row struct {
	skald.Message
	Seq    int64
	Bucket int // 0 … Buckets-1
	// Large stands for a row that is too large to be read. Nil: the message is whole.
	Large *Large
	// Fault is why the row cannot be read; "": it can. Time, Headers and Data may be missing then. Set aside,
	// it is copied as it lies in the database, and can be read once somebody has mended the copy.
	Fault string
}

// Large stands for what is in a row of more than RowBytes. Of its message there are the id, the time, the
// beginning of the topic, and the key, if that keeps its limit. It has no type, so it breaks a limit and is
// not published, whoever reads it.
type Large struct {
	Bytes  int64
	SHA256 string // of the data, in hexadecimal; "": the database cannot tell
}

// Aside is a row that the broker refused, or that waits behind one of its key.
type DeferredRow struct {
	Row
	Attempts int           // how often it was refused; 0: it only waits
	Why      string        // the last refusal; at most 1 KiB, longer ones are cut
	Due      time.Duration // from now, by the store's clock: when to try again. Only written
}

// Held is a key that has rows deferred.
type Held struct {
	Topic string
	Key   []byte
	Shard int
}
