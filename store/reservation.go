package store

import "time"

// A Reservation is a key that work outside of a transaction has in hand, until its lease ends.
type Reservation struct {
	Consumer string
	Identity
	Fingerprint int64         // as in Mark
	Token       string        // of this reservation alone
	Lease       time.Duration // from now, by the store's clock
	Keep        time.Duration // as in Mark
}

// Reserved answers a Reservation.
type Reserved struct {
	// Verdict is what is known of the key. Fresh: it is reserved, by this Token or by a rival's. Its
	// Fingerprint is then the rival's.
	Verdict
	Rival bool          // another reservation has the key
	Left  time.Duration // of the rival's lease; 0: it has just been given back, or ended
}
