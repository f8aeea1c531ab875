package store

import "time"

// Call is an external call of a parked message. It is stored before the call is made. After a crash the next
// process therefore reads that the call may have been made, and its key.
type Call struct {
	Key     string // the idempotency key that each attempt sends
	Request string // encoded by the caller; drivers store it unchanged
	// Since is when the call was first stored, by the store's clock. Zero on writing means now, or the stored
	// time if the row already has a call with this key.
	Since time.Time
	// Age is the time since Since, by the store's clock. Drivers set it on reading.
	Age     time.Duration
	Outcome string // encoded by the caller, stored unchanged; empty while it is unknown
	// Undo reports that an undo waits for the outcome of the call, and that its key must not be used for
	// another one.
	Undo bool
}
