package order

// A Peek bounds a look at kept messages.
type Peek struct {
	Limit int // of messages that are returned
	Scan  int // of messages that are read for that: some fields of a Selection no index knows
}

// PageSize is how much is read at once, where it comes with all that belongs to it.
const PageSize = 100
