package store

import (
	"time"

	"github.com/skald-go/skald"
)

// A Window is the part of the outbox between two ticks.
type Window struct {
	Base, Tip string
	After     int64 // only rows with a larger sequence number
	// Lanes, by their buckets, both ends included; nil: all.
	Buckets [][2]int
}

// A Page is some rows of a window.
type Page struct {
	Rows []Row
	Done bool // nothing of the window lies behind them
}

// A Row is a message in the outbox.
type Row struct {
	skald.Message
	Seq    int64
	Bucket int // 0 … Buckets-1
}

// Aside is a row that the broker refused, or that waits behind one of its key.
type Aside struct {
	Row
	Attempts int           // how often it was refused; 0: it only waits
	Why      string        // the last refusal; at most 1 KiB, longer ones are cut
	Due      time.Duration // from now, by the store's clock: when to try again. Only written
}

// Held is a key that has rows set aside.
type Held struct {
	Topic string
	Key   []byte
	Lane  int
}
