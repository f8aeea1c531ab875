package store

import "time"

// Call is an external call of a parked message. Skald stores the Call before it sends the request. So after a
// crash, the next process finds the idempotency key, and knows that the request may have been sent.
type Call struct {
	Key     string // the idempotency key that each attempt sends
	Request string // encoded by the caller; drivers store it unchanged
	// Since is the time at which the call was first stored, by the store's clock. If you write zero, drivers
	// store the current time, or keep the stored time if the row already has a call with this key.
	Since time.Time
	// Age is the time since Since, by the store's clock. Drivers set it on reading.
	Age     time.Duration
	Outcome string // encoded by the caller, stored unchanged; empty while the outcome is unknown
	// Undo reports that an undo waits for the outcome of the call. Then no other call may use the key.
	Undo bool
}
