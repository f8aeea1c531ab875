package store

// A Hearing is how a source that hears of commits by itself gets on with that.
type Hearing struct {
	// Quiet: all that was committed until now was looked at, and whatever is committed from now on wakes.
	// Nobody needs to look before.
	Quiet bool
	// Elsewhere: another session hears, so that this one stands by where a relay works.
	Elsewhere bool
	// Why it does not hear, so that its relay looks as others do, or, of a source that another reads, moves
	// nothing; "": it hears, or is about to, or stands by.
	Why string
}
