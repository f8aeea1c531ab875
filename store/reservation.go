package store

import "time"

// Reservation reserves an idempotency key for work outside of a transaction, until its lease ends.
type Reservation struct {
	Consumer string
	Identity
	Fingerprint int64         // as in Mark
	Token       string        // unique to this reservation
	Lease       time.Duration // from now, by the store's clock
	Keep        time.Duration // as in Mark
}

// Reserved is the result of Reserve.
type Reserved struct {
	// Verdict is the stored verdict of the key. Fresh means that the key is reserved, by this Token or by a
	// rival. If a rival has the key, Fingerprint is the rival's.
	Verdict
	Rival bool          // another reservation has the key
	Left  time.Duration // remaining time of the rival's lease; 0 if that lease has just ended
}
