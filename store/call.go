package store

import "time"

// A Call is a call to the outside that a kept message is at. It is stored before the call is made, so that whoever takes the
// message on knows that it may have been, and under which key.
type Call struct {
	Key     string    // what the outside knows it by, each time that it is made
	Request string    // encoded; as it is
	Since   time.Time // when it was stored first, by the clock of who stored it
	Outcome string    // encoded; as it is. "": not known yet
	// Undo: somebody waits to undo it, and first has to know what became of it. The key is to be used up.
	Undo bool
}
