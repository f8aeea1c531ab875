package store

import "time"

// A Call is a call to the outside that a kept message is at. It is stored before the call is made, so that
// whoever takes the message on knows that it may have been, and under which key.
type Call struct {
	Key     string // what the outside knows it by, each time that it is made
	Request string // encoded; as it is
	// Since is when it was stored first, by the clock of the store. Zero, where it is stored: now, or as the
	// row has it that is at the call of this key already.
	Since time.Time
	// Age is how long that was ago when it was read, by the clock of the store. Only read.
	Age     time.Duration
	Outcome string // encoded; as it is. "": not known yet
	// Undo: somebody waits to undo it, and first has to know what became of it. The key is to be used up.
	Undo bool
}
